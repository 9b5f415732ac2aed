//! The words of `ferrule overhead`, read by hand: split into words, group by bars, read each
//! group by its first word.
//!
//! ```text
//! STACK  = [FRAME BAR] TRANSFORMATION { BAR TRANSFORMATION } | FRAME
//! FRAME  = eth {svlan | vlan} [arp | (ipv4 | ipv6) [udp | tcp | icmp]] [PAYLOAD]
//! BAR    = "|" or "/" (which a shell leaves alone)
//! ```
//!
//! An unknown word is answered with the word nearest to it among those that may stand there.

use crate::Stack;
use crate::error::StackError;
use crate::frame::{Layer, UserFrame};
use crate::suite::{MacsecCipher, ah_suites, cipher_name, esp_ciphers};
use crate::transform::{
    Ah, Esp, IpVersion, L2tpv3, LABELS_MAX, Macsec, Mode, Pseudowire, ServiceTag, TagKind,
    Transform,
};
use crate::words::{Word, once, one_of, span_of, split};
use ferrule_base::nearest;
use ferrule_crypto::{Mac, Suite};

/// The most transformations of a stack.
pub(crate) const STAGES_MAX: usize = 16;
/// The longest text that is read.
const TEXT_LEN_MAX: usize = 4096;

/// The grammar for a person, one line for each kind of group: words, then what they mean.
pub static GRAMMAR: &[(&str, &str)] = &[
    ("eth TAGS LAYERS N", "the user's frame, N bytes of payload"),
    ("", "tags: svlan (qinq), vlan; layers: ipv4|ipv6, udp|tcp|icmp; or arp"),
    ("macsec [sci] [CIPHER]", "gcm-aes-128|256, gcm-aes-xpn-128|256"),
    ("", "options: clear-vlan, integrity, offset 30|50"),
    ("esp SUITE [MODE]", "tunnel (with a new Ethernet header) or transport"),
    ("", "options: ipv6 (the outer header), udp-encap (or udp), esn"),
    ("ah INTEGRITY [MODE]", "as esp; integrity: a hash, or aes-gmac-128|256"),
    ("", "options: ipv6 (the outer header), pad8, esn"),
    ("mpls [N] [cw]", "pseudowire: Ethernet, N labels, control word"),
    ("", "options: strip-tag, add-tag"),
    ("mpls [N] ip, l3vpn [N]", "labels under IP in place of Ethernet and tags"),
    ("vlan, svlan, untag", "a bridge puts a tag on or takes it off"),
    ("l2tpv3, vxlan", "calculation only"),
    ("", "options: ipv6; of l2tpv3 also udp, cookie 4|8, sublayer"),
];

/// The first words of transformations.
const HEADS: [&str; 10] =
    ["esp", "ah", "macsec", "mpls", "l3vpn", "vlan", "svlan", "untag", "l2tpv3", "vxlan"];
const ESP_WORDS: [&str; 7] = ["tunnel", "transport", "ipv4", "ipv6", "udp-encap", "udp", "esn"];
const AH_WORDS: [&str; 6] = ["tunnel", "transport", "ipv4", "ipv6", "pad8", "esn"];
const MACSEC_WORDS: [&str; 4] = ["sci", "clear-vlan", "integrity", "offset"];
const MPLS_WORDS: [&str; 4] = ["cw", "ip", "strip-tag", "add-tag"];
const L2TP_WORDS: [&str; 5] = ["udp", "cookie", "sublayer", "ipv4", "ipv6"];

/// Reads `text`; `default` is the frame of a text that begins with a transformation.
pub(crate) fn parse(text: &str, default: &UserFrame) -> Result<Stack, StackError> {
    if text.len() > TEXT_LEN_MAX {
        return Err(StackError::new(format!("more than {TEXT_LEN_MAX} octets of text")));
    }
    let groups = split(text)?;
    let mut groups = groups.iter();
    let Some(first) = groups.clone().next() else {
        return Err(StackError::new("an empty stack")
            .with_help("for example `eth vlan ipv4 udp 954 | macsec sci | mpls cw`"));
    };
    // Only a frame begins with `eth`. A wrong first word is most likely a frame's if a number
    // ends the group: that decides which words to suggest.
    let begins_with_frame = match first.first() {
        Some(head) => !HEADS.contains(&head.text.as_str()) && is_frame(first),
        None => false,
    };
    let frame = if begins_with_frame { read_frame(first)? } else { default.clone() };
    let frame_span =
        if begins_with_frame { groups.next().map(|group| span_of(group)) } else { None };
    let mut spans = vec![frame_span.unwrap_or(0..text.len())];
    let mut transforms = Vec::new();
    for group in groups {
        if transforms.len() == STAGES_MAX {
            return Err(StackError::new(format!("more than {STAGES_MAX} transformations"))
                .at(span_of(group)));
        }
        transforms.push(read_transform(group)?);
        spans.push(span_of(group));
    }
    Stack::new(frame, transforms).map_err(|error| {
        match error.stage.and_then(|stage| spans.get(stage)) {
            Some(span) => error.at(span.clone()),
            None => error,
        }
    })
}

/// True if a group whose first word opens no transformation is meant as a frame.
fn is_frame(group: &[Word]) -> bool {
    let is_layer = |word: &Word| Layer::all().any(|layer| word.is(layer.name()));
    let head = group.first().is_some_and(is_layer);
    let layers = group.iter().filter(|word| is_layer(word)).count();
    let near_eth = group.first().is_some_and(|word| nearest(&word.text, HEADS).is_none());
    head || near_eth || layers > 1
}

fn read_frame(group: &[Word]) -> Result<UserFrame, StackError> {
    let mut layers = Vec::new();
    let mut payload = None;
    for word in group {
        if payload.is_some() {
            return Err(word
                .fault("nothing follows the size of the payload")
                .with_help("a transformation is separated by a bar: `eth ipv4 udp 954 | esp …`"));
        }
        if let Some(number) = word.number()? {
            payload = Some(number);
            continue;
        }
        layers.push(read_layer(word)?);
        // Checked as it grows, so that the caret stands under the first wrong word.
        UserFrame::new(layers.clone(), 0).map_err(|error| error.at(word.span.clone()))?;
    }
    UserFrame::new(layers, payload.unwrap_or(0)).map_err(|error| error.at(span_of(group)))
}

fn read_layer(word: &Word) -> Result<Layer, StackError> {
    match word.text.as_str() {
        "ethernet" => return Ok(Layer::Ethernet),
        "802.1q" => return Ok(Layer::Vlan),
        "qinq" | "802.1ad" => return Ok(Layer::Svlan),
        "icmpv6" => return Ok(Layer::Icmp),
        _ => {}
    }
    let found = Layer::all().find(|layer| word.is(layer.name()));
    found.ok_or_else(|| {
        if HEADS.contains(&word.text.as_str()) {
            return word
                .fault(format!("`{}` is no layer of a user's frame", word.text))
                .with_help(format!("put a bar before it: `… | {} …`", word.text));
        }
        word.unknown("the user's frame", Layer::all().map(Layer::name))
    })
}

fn read_transform(group: &[Word]) -> Result<Transform, StackError> {
    let Some((head, rest)) = group.split_first() else {
        return Err(StackError::new("a bar with nothing beside it"));
    };
    match head.text.as_str() {
        "esp" => read_esp(head, rest),
        "ah" => read_ah(head, rest),
        "macsec" => read_macsec(rest),
        "mpls" => read_mpls(head, rest),
        "l3vpn" => read_l3vpn(rest),
        "l2tpv3" => read_l2tpv3(rest),
        "vxlan" => Ok(Transform::Vxlan { outer: read_outer(rest, "vxlan")? }),
        "vlan" | "802.1q" => alone(rest, "vlan", Transform::PushTag(TagKind::Customer)),
        "svlan" | "qinq" | "802.1ad" => alone(rest, "svlan", Transform::PushTag(TagKind::Service)),
        "untag" => alone(rest, "untag", Transform::PopTag),
        "eth" => Err(head
            .fault("only the first group is a user's frame")
            .with_help("each transformation brings its own Ethernet header where it needs one")),
        _ => Err(head.unknown("a transformation", HEADS)),
    }
}

fn alone(rest: &[Word], head: &str, transform: Transform) -> Result<Transform, StackError> {
    match rest.first() {
        Some(word) => Err(word.fault(format!("`{head}` stands alone, without `{}`", word.text))),
        None => Ok(transform),
    }
}

/// Words that ESP and AH have in common.
#[derive(Default)]
struct IpsecWords<'a> {
    mode: Option<Mode>,
    outer: Option<(IpVersion, &'a Word)>,
    esn: bool,
}

impl<'a> IpsecWords<'a> {
    /// Takes a word, if it is one of them.
    fn take(&mut self, word: &'a Word) -> Result<bool, StackError> {
        match word.text.as_str() {
            "tunnel" => once(&mut self.mode, Mode::Tunnel, word, "a mode")?,
            "transport" => once(&mut self.mode, Mode::Transport, word, "a mode")?,
            "ipv4" => once(&mut self.outer, (IpVersion::V4, word), word, "an outer header")?,
            "ipv6" => once(&mut self.outer, (IpVersion::V6, word), word, "an outer header")?,
            "esn" => self.esn = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The mode, tunnel unless a word says otherwise.
    fn mode(&self) -> Mode {
        self.mode.unwrap_or_default()
    }

    /// The version of the outer header.
    fn outer(&self) -> Result<IpVersion, StackError> {
        match (self.mode(), self.outer) {
            (Mode::Transport, Some((_, word))) => Err(word
                .fault("transport mode keeps the packet's own IP header")
                .with_help(format!("leave `{}` out", word.text))),
            (_, outer) => Ok(outer.map(|(version, _)| version).unwrap_or_default()),
        }
    }
}

fn read_esp(head: &Word, rest: &[Word]) -> Result<Transform, StackError> {
    let ciphers = cipher_names();
    let (mut cipher, mut mac) = (None, None);
    let (mut words, mut udp_encap) = (IpsecWords::default(), false);
    for word in rest {
        if ciphers.iter().any(|name| word.is(name)) {
            once(&mut cipher, word, word, "a cipher")?;
        } else if let Some(found) = Mac::ALL.into_iter().find(|mac| word.is(mac.name())) {
            once(&mut mac, found, word, "an integrity algorithm")?;
        } else if word.is("udp-encap") || word.is("udp") {
            udp_encap = true;
        } else if !words.take(word)? {
            let macs = Mac::ALL.into_iter().map(Mac::name);
            return Err(word.unknown("`esp`", ciphers.into_iter().chain(macs).chain(ESP_WORDS)));
        }
    }
    let outer = words.outer()?;
    let mut suites = esp_ciphers(mac.unwrap_or(ANY)).into_iter();
    let suite = cipher.and_then(|word| suites.find(|suite| word.is(cipher_name(*suite))));
    let Some(suite) = suite else {
        return Err(head.fault("`esp` needs a suite").with_help(
            "for example `esp aes-gcm-128 tunnel` or `esp aes-cbc-128 hmac-sha1-96 tunnel`",
        ));
    };
    let span = head.span.start..rest.last().map_or(head.span.end, |word| word.span.end);
    paired(suite, mac).map_err(|error| error.at(span))?;
    let (mode, esn) = (words.mode(), words.esn);
    Ok(Transform::Esp(Esp { suite, mode, outer, udp_encap, esn }))
}

/// The hash beside a cipher as long as none is named.
const ANY: Mac = Mac::HmacSha256_128;

fn cipher_names() -> Vec<&'static str> {
    esp_ciphers(ANY).into_iter().map(cipher_name).collect()
}

/// Checks that an integrity algorithm stands beside the cipher where the cipher needs one, and
/// nowhere else.
fn paired(suite: Suite, mac: Option<Mac>) -> Result<(), StackError> {
    let cipher = cipher_name(suite);
    match (suite.mac(), mac) {
        (Some(_), None) => Err(StackError::new(format!(
            "`{cipher}` does not authenticate: ESP needs an integrity algorithm beside it"
        ))
        .with_help("add `hmac-sha256-128`, or `hmac-sha1-96` as the study has it")),
        (None, Some(mac)) => Err(StackError::new(format!(
            "`{cipher}` authenticates by itself and takes no `{}`",
            mac.name()
        ))
        .with_help(format!("leave `{}` out", mac.name()))),
        _ => Ok(()),
    }
}

fn read_ah(head: &Word, rest: &[Word]) -> Result<Transform, StackError> {
    let (mut suite, mut pad8) = (None, false);
    let mut words = IpsecWords::default();
    for word in rest {
        if let Some((_, found)) = ah_suites().find(|(name, _)| word.is(name)) {
            once(&mut suite, found, word, "an integrity algorithm")?;
        } else if word.is("pad8") {
            pad8 = true;
        } else if !words.take(word)? {
            let names = ah_suites().map(|(name, _)| name);
            return Err(word.unknown("`ah`", names.chain(AH_WORDS)));
        }
    }
    let outer = words.outer()?;
    let Some(suite) = suite else {
        return Err(head
            .fault("`ah` needs an integrity algorithm")
            .with_help("for example `ah hmac-sha256-128 tunnel`"));
    };
    let (mode, esn) = (words.mode(), words.esn);
    Ok(Transform::Ah(Ah { suite, mode, outer, pad8, esn }))
}

fn read_macsec(rest: &[Word]) -> Result<Transform, StackError> {
    let mut macsec = Macsec::default();
    let mut cipher = None;
    let mut words = rest.iter();
    let mut offset = None;
    while let Some(word) = words.next() {
        if let Some(found) = MacsecCipher::ALL.into_iter().find(|suite| word.is(suite.name())) {
            once(&mut cipher, found, word, "a cipher suite")?;
            continue;
        }
        match word.text.as_str() {
            "sci" => macsec.sci = true,
            "clear-vlan" => macsec.clear_vlan = true,
            "integrity" => macsec.integrity_only = true,
            "offset" => {
                let octets = one_of(word, words.next(), &[0, 30, 50])?;
                once(&mut offset, (octets, word), word, "an offset")?;
            }
            _ => {
                let suites = MacsecCipher::ALL.into_iter().map(MacsecCipher::name);
                return Err(word.unknown("`macsec`", suites.chain(MACSEC_WORDS)));
            }
        }
    }
    macsec.cipher = cipher.unwrap_or_default();
    if let Some((octets, word)) = offset.filter(|&(octets, _)| octets > 0) {
        macsec.offset = octets;
        if macsec.integrity_only {
            return Err(word
                .fault("a confidentiality offset needs confidentiality")
                .with_help("leave `integrity` or the offset out"));
        }
        if macsec.cipher.is_xpn() {
            return Err(word
                .fault("the XPN cipher suites have no confidentiality offset (802.1AE clause 14.7)")
                .with_help("leave the offset out, or take `gcm-aes-128` or `gcm-aes-256`"));
        }
    }
    Ok(Transform::Macsec(macsec))
}

fn read_mpls(head: &Word, rest: &[Word]) -> Result<Transform, StackError> {
    let (mut labels, mut tag) = (None, None);
    let mut wire = Pseudowire { labels: 1, control_word: false, tag: ServiceTag::Keep };
    let mut ip = false;
    for word in rest {
        if let Some(number) = word.number()? {
            once(&mut labels, label_count(word, number)?, word, "a number of labels")?;
            continue;
        }
        match word.text.as_str() {
            "cw" => wire.control_word = true,
            "ip" => ip = true,
            "strip-tag" => once(&mut tag, ServiceTag::Strip, word, "a treatment of the tag")?,
            "add-tag" => once(&mut tag, ServiceTag::Add, word, "a treatment of the tag")?,
            _ => return Err(word.unknown("`mpls`", MPLS_WORDS)),
        }
    }
    (wire.labels, wire.tag) = (labels.unwrap_or(1), tag.unwrap_or_default());
    if ip && (wire.control_word || wire.tag != ServiceTag::Keep) {
        return Err(head
            .fault("control word and tag belong to a pseudowire, `ip` to an L3VPN")
            .with_help("leave one of them out"));
    }
    Ok(if ip { Transform::L3vpn { labels: wire.labels } } else { Transform::Pseudowire(wire) })
}

fn read_l3vpn(rest: &[Word]) -> Result<Transform, StackError> {
    let mut labels = None;
    for word in rest {
        match word.number()? {
            Some(number) => {
                once(&mut labels, label_count(word, number)?, word, "a number of labels")?;
            }
            None => return Err(word.unknown("`l3vpn`", ["2"])),
        }
    }
    // The transport label and the VPN's (RFC 4364 section 5).
    Ok(Transform::L3vpn { labels: labels.unwrap_or(2) })
}

fn label_count(word: &Word, number: usize) -> Result<usize, StackError> {
    if (1..=LABELS_MAX).contains(&number) {
        return Ok(number);
    }
    Err(word.fault(format!("{number} labels: a stack has 1 to {LABELS_MAX}")))
}

fn read_l2tpv3(rest: &[Word]) -> Result<Transform, StackError> {
    let mut l2tp = L2tpv3::default();
    let (mut cookie, mut outer) = (None, None);
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "udp" => l2tp.udp = true,
            "cookie" => {
                let octets = one_of(word, words.next(), &[0, 4, 8])?;
                once(&mut cookie, octets, word, "a cookie")?;
            }
            "sublayer" => l2tp.sublayer = true,
            "ipv4" => once(&mut outer, IpVersion::V4, word, "an outer header")?,
            "ipv6" => once(&mut outer, IpVersion::V6, word, "an outer header")?,
            _ => return Err(word.unknown("`l2tpv3`", L2TP_WORDS)),
        }
    }
    (l2tp.cookie, l2tp.outer) = (cookie.unwrap_or(0), outer.unwrap_or_default());
    Ok(Transform::L2tpv3(l2tp))
}

fn read_outer(rest: &[Word], head: &str) -> Result<IpVersion, StackError> {
    let mut outer = None;
    for word in rest {
        let version = match word.text.as_str() {
            "ipv4" => IpVersion::V4,
            "ipv6" => IpVersion::V6,
            _ => return Err(word.unknown(&format!("`{head}`"), ["ipv4", "ipv6"])),
        };
        once(&mut outer, version, word, "an outer header")?;
    }
    Ok(outer.unwrap_or_default())
}
