//! Keys on a token: the table that says which token, and how keys on it are named.
//!
//! ```toml
//!   [token]                   # a PKCS#11 module, and what is made ahead
//!   module = "/usr/lib/softhsm/libsofthsm2.so"
//!   token = "gateway"         # the token's label
//!   pin-file = "token.pin"    # mode 600; a PIN is never on a command line
//!   profile = "none"          # or a slow token's: microsd, tpm, usb-hsm
//!   blocks = 16384            # of key stream, for each direction
//!   reach = 4096              # packets that are made ahead or waited for at most
//!   behind = 64               # packets that may come late
//!   on-gone = "fetch"         # late without key stream: ask for it, or "drop"
//!   keep-seconds = 600        # for which an SA may be silent; 0: for ever
//!   delay = [{ octets = 1024, milliseconds = 5 }]    # the study's shaping
//!
//!   [[tunnel]]
//!   placement = "token"
//!   [tunnel.out]
//!   key = "token:LABEL"       # the key's label on the token
//!   rest = "t.out.key"        # a key file without cipher: salt, integrity
//! ```
//!
//! In place of the key itself the configuration holds a name of it, which the
//! token's answer to one question gives: so one key under two labels is found out,
//! and counters are bound to the key as everywhere.

use super::keys::KeyFile;
use super::raw::{self, Text};
use super::read::Reader;
use super::{Config, Placement};
use ferrule_base::Duration;
use ferrule_crypto::{Aes, Suite};
use std::ops::RangeInclusive;

/// A key whose name begins so is on the token.
pub const TOKEN_KEY: &str = "token:";

/// Token profiles that are shipped.
pub const TOKEN_PROFILES: [&str; 4] = ["none", "microsd", "tpm", "usb-hsm"];

/// Blocks of key stream for each direction: 8 KiB to 256 MiB.
const BLOCKS: RangeInclusive<i64> = 512..=1 << 24;

/// The token for what is placed there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenConfig {
    /// The PKCS#11 module. Not needed in a laboratory.
    pub module: String,
    /// The token's label.
    pub token: String,
    /// The file with the PIN.
    pub pin_file: String,
    /// How slow it is: a shipped profile.
    pub profile: String,
    /// Blocks of key stream for each direction.
    pub blocks: usize,
    /// Packets ahead of the last authentic one that are made or waited for.
    pub reach: u64,
    /// Packets behind it that keep their key stream.
    pub behind: u64,
    /// A packet without key stream is dropped; otherwise it is asked for.
    pub drop_gone: bool,
    /// After this silence key stream is wiped.
    pub keep: Option<Duration>,
    /// Delays of packets of at least so many octets, the largest first.
    pub delays: Vec<(usize, Duration)>,
}

/// The table `[token]`, if there is one.
pub(super) fn token(r: &mut Reader<'_>, file: &raw::File, lab: bool) -> Option<TokenConfig> {
    let spanned = file.token.as_ref()?;
    let table = spanned.get_ref();
    for (value, word, example) in [
        (&table.module, "module", "/usr/lib/softhsm/libsofthsm2.so"),
        (&table.token, "token", "LABEL"),
        (&table.pin_file, "pin-file", "token.pin"),
    ] {
        let remedy = format!("{word} = \"{example}\"");
        match value {
            None if r.lab.is_none() => {
                let what = format!("[token] has no {word}");
                r.problems.add(spanned.span(), what, format!("add {remedy}"));
            }
            Some(text) if text.get_ref().is_empty() => {
                r.problems.add(text.span(), format!("{word} is empty"), format!("write {remedy}"));
            }
            _ => {}
        }
    }
    let profiles = TOKEN_PROFILES.map(|name| (name, name));
    let profile = table.profile.as_ref().and_then(|t| r.choice(t, "token profile", &profiles));
    let gone = [("fetch", false), ("drop", true)];
    let gone = table.on_gone.as_ref().and_then(|t| r.choice(t, "way out", &gone));
    let keep = r.number(table.keep_seconds.as_ref(), 600, 0..=86_400, "keep-seconds") as u64;
    let mut delays = Vec::new();
    for delay in &table.delay {
        let octets = r.number(Some(&delay.octets), 0, 0..=65_535, "octets") as usize;
        let time = r.number(Some(&delay.milliseconds), 0, 0..=1000, "milliseconds") as u64;
        delays.push((octets, Duration::from_millis(time)));
    }
    if !delays.is_empty() && !lab {
        let remedy = "leave delay out: it is a study's, for a laboratory";
        r.problems.add(spanned.span(), "packets that are delayed by their size", remedy);
    }
    delays.sort_by_key(|&(octets, _)| std::cmp::Reverse(octets));
    let text = |t: &Option<Text>| t.as_ref().map(|t| t.get_ref().clone()).unwrap_or_default();
    Some(TokenConfig {
        module: text(&table.module),
        token: text(&table.token),
        pin_file: text(&table.pin_file),
        profile: profile.unwrap_or("none").to_owned(),
        blocks: r.number(table.blocks.as_ref(), 1 << 14, BLOCKS, "blocks") as usize,
        reach: r.number(table.reach.as_ref(), 4096, 16..=65_536, "reach") as u64,
        behind: r.number(table.behind.as_ref(), 64, 0..=4096, "behind") as u64,
        drop_gone: gone.unwrap_or(false),
        keep: (keep > 0).then(|| Duration::from_secs(keep)),
        delays,
    })
}

/// Where one SA's key is: at most a file, at most a label.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub key: &'a Text,
    pub rest: Option<&'a Text>,
}

/// True if a token offers the suite, outside of studies.
pub(super) fn has_suite(suite: Suite) -> bool {
    matches!(suite, Suite::AesGcm(aes) | Suite::AesGcmIiv(aes) if aes != Aes::Aes192)
}

impl Reader<'_> {
    /// The keys of an SA, from a key file or from the token.
    pub fn keys_of(
        &mut self,
        named: Named<'_>,
        placement: Placement,
        config: &Config,
        lengths: [(&str, usize); 3],
    ) -> Option<KeyFile> {
        let label = named.key.get_ref().strip_prefix(TOKEN_KEY);
        match (label, placement == Placement::Token) {
            (None, false) => {
                if let Some(rest) = named.rest {
                    let remedy = "take `rest` out: the key file has it all";
                    self.problems.add(rest.span(), "`rest` beside a key file", remedy);
                }
                self.key_file(named.key, lengths)
            }
            (None, true) => {
                let what = format!("key `{}` is not on the token", named.key.get_ref());
                let remedy = "write key = \"token:LABEL\", or another placement";
                self.problems.add(named.key.span(), what, remedy);
                None
            }
            (Some(_), false) => {
                let what = format!("key `{}` is on the token", named.key.get_ref());
                self.problems.add(named.key.span(), what, "add placement = \"token\"");
                None
            }
            (Some(label), true) => self.token_key(label, named, config, lengths),
        }
    }

    fn token_key(
        &mut self,
        label: &str,
        named: Named<'_>,
        config: &Config,
        lengths: [(&str, usize); 3],
    ) -> Option<KeyFile> {
        if label.is_empty() {
            let remedy = "write key = \"token:LABEL\"; `ferrule token show` says what is there";
            self.problems.add(named.key.span(), "a key on the token without a label", remedy);
            return None;
        }
        let table = config.token.as_ref()?;
        let where_it_is = [&table.module, &table.token, &table.pin_file];
        if self.lab.is_none() && where_it_is.iter().any(|word| word.is_empty()) {
            // That is said already, and nobody can be asked.
            return None;
        }
        let [(_, len), integrity, salt] = lengths;
        let cipher = match self.keys.token(table, label, len) {
            Ok(cipher) => cipher,
            Err(e) => {
                let usual = "`ferrule token --help` shows how a key comes to a token";
                let (what, remedy) = e.split_once('\n').unwrap_or((&e, usual));
                self.problems.add(named.key.span(), what, remedy);
                return None;
            }
        };
        let rest = [("cipher", 0), integrity, salt];
        let file = match named.rest {
            Some(rest_file) => self.key_file(rest_file, rest)?,
            None if rest.iter().all(|(_, len)| *len == 0) => KeyFile::empty(),
            None => {
                let what = "a key on the token, and no salt or integrity key";
                let remedy = "add rest = \"FILE\": a key file with all but the cipher key";
                self.problems.add(named.key.span(), what, remedy);
                return None;
            }
        };
        Some(KeyFile { cipher, label: Some(label.to_owned()), ..file })
    }

    /// Complains about a suite that cannot be where it is placed, or that has no
    /// place outside a laboratory. False if it is not to be used at all.
    pub fn suite_at(
        &mut self,
        t: &Text,
        suite: Suite,
        placement: Placement,
        config: &Config,
    ) -> bool {
        let study = matches!(suite, Suite::AesCtrStudy(..));
        let (token, lab) = (placement == Placement::Token, config.lab);
        if let Some(table) = config.token.as_ref().filter(|_| study && token) {
            // The study's ring keeps blocks, not packets, beside two exchanges.
            let least = table.behind as usize + *BLOCKS.start() as usize;
            if table.blocks < least {
                let (blocks, behind) = (table.blocks, table.behind);
                let what = format!("{blocks} blocks have no room for {behind} behind with {suite}");
                let remedy = format!("set blocks = {least} or more in [token], or a lower behind");
                self.problems.add(t.span(), what, remedy);
            }
        }
        if study && !(token && lab) {
            let remedy = "use it with placement = \"token\" in a laboratory, or aes-gcm-128";
            self.problems.add(t.span(), format!("{suite} is a study's suite"), remedy);
        }
        if let Some(algorithm) = suite.forbidden().filter(|_| !lab) {
            let what = format!("{algorithm} protects nothing today (RFC 8221): it is for studies");
            let remedy = "use aes-gcm-128; a study sets lab = true in [node]";
            self.problems.add(t.span(), what, remedy);
            return false;
        }
        if token && !study && !has_suite(suite) {
            let what = format!("a token does not have {suite}");
            self.problems.add(t.span(), what, "use aes-gcm-128, aes-gcm-256, or their -iiv");
        }
        true
    }
}

#[cfg(test)]
mod tests;
