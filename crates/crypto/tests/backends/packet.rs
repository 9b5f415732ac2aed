//! One packet through a backend's key, as an engine would put it there.

use ferrule_base::Secret;
use ferrule_crypto::backend::Key;
use ferrule_crypto::{Ad, Backend, Job, KeyId, KeySpec, Op, Span, Suite, Verdict};

/// A specification from plain octets.
pub fn spec(suite: Suite, key: &[u8], mac_key: &[u8]) -> KeySpec {
    KeySpec::new(suite, Secret::new(key.to_vec()), Secret::new(mac_key.to_vec()))
}

/// A specification whose keys count upwards from `first`.
pub fn counting_spec(suite: Suite, first: u8) -> KeySpec {
    let octets = |len: usize| (0..len).map(|i| first.wrapping_add(i as u8)).collect::<Vec<_>>();
    spec(suite, &octets(suite.key_len()), &octets(suite.mac_key_len()))
}

/// Hexadecimal digits.
pub fn octets(hex: &str) -> Vec<u8> {
    Secret::from_hex(hex).unwrap().expose().to_vec()
}

/// Octets of IV that the engine writes in front of the text: a cipher's block.
pub fn written_iv(suite: Suite) -> usize {
    if suite.text_has_iv() { suite.esp_iv_len() } else { 0 }
}

/// A text of about `len` octets that the suite can have.
pub fn text_len(suite: Suite, len: usize) -> usize {
    match written_iv(suite) {
        _ if suite.is_integrity() => 0,
        0 => len,
        block => block + len / block * block,
    }
}

/// A packet and where its parts are.
#[derive(Clone, Debug)]
pub struct Packet {
    pub suite: Suite,
    pub nonce: [u8; 12],
    pub ad: Ad,
    pub text: Span,
    pub buf: Vec<u8>,
}

impl Packet {
    /// `ad ‖ text ‖ icv`; an empty ICV is made room for.
    pub fn new(suite: Suite, nonce: [u8; 12], ad: &[u8], text: &[u8], icv: &[u8]) -> Self {
        let mut buf = [ad, text, icv].concat();
        buf.resize(ad.len() + text.len() + suite.icv_len(), 0);
        let (text, ad) = (Span::new(ad.len(), text.len()), Ad::Span(Span::new(0, ad.len())));
        Self { suite, nonce, ad, text, buf }
    }

    /// Seals or opens it.
    pub fn run(&mut self, op: Op, key: &Key) -> Verdict {
        key.run(op, &self.nonce, self.ad, self.text, &mut self.buf)
    }

    /// As a job.
    pub fn job(&self, op: Op, key: KeyId, ticket: u64) -> Job<Vec<u8>> {
        let Self { nonce, ad, text, .. } = *self;
        let (buf, verdict) = (self.buf.clone(), Verdict::Pending);
        Job { buf, key, ticket, number: 0, nonce, op, verdict, ad, text }
    }

    /// The octets to encrypt; with CBC those behind the IV.
    pub fn cleartext(&self) -> &[u8] {
        let iv = written_iv(self.suite).min(self.text.len as usize);
        &self.buf[self.text.start as usize + iv..self.text.end()]
    }

    /// The octets of the text.
    pub fn text(&self) -> &[u8] {
        &self.buf[self.text.range()]
    }

    /// The octets of the ICV.
    pub fn icv(&self) -> &[u8] {
        &self.buf[self.text.end()..][..self.suite.icv_len()]
    }
}

/// The key in every backend of this build.
pub fn in_every_backend(spec: &KeySpec) -> Vec<(Backend, Key)> {
    Backend::all().iter().map(|&b| (b, b.key(spec).unwrap())).collect()
}
