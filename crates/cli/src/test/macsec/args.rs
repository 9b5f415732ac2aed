//! Words of `ferrule test macsec`, and the associations that follow from them.

use super::frames::Sa;
use super::probes::Told;
use crate::test::args::duration;
use crate::test::mka::{Agreed, ckn, suite};
use clap::Args;
use ferrule_base::{Duration, MacAddr, Secret};
use ferrule_control::mka::{Confidentiality, Suite};
use ferrule_crypto::Aes;
use ferrule_daemon::{Blame, Fault, load};
use ferrule_dataplane::macsec::{Cipher, Xpn};
use ferrule_node::config;
use ferrule_wire::Sci;
use ferrule_wire::eapol::PAE_GROUP;
use ferrule_wire::mkpdu::Ckn;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "Examples:
  sudo ferrule test macsec --interface eth1 --clear eth2 --key to.key --device-key of.key
  sudo ferrule test macsec --interface eth1 --clear eth2 --cak cak.key --ckn 0011223344556677 \\
      --window 64 --report macsec.html
  sudo ferrule test macsec --interface eth1 --clear eth2 --key sak.key --suite gcm-aes-xpn-128 \\
      --ssci 2 --device-ssci 1

The device bridges between its MACsec port (--interface is beside it) and a clear one (--clear is
beside that). A key file has a line `cipher HEX`, with XPN a line `salt HEX`; nobody else may read
it (chmod 600). The device receives from the SCI of --interface's address and port 1, or --sci.

Packet numbers of a static key must not come again: take new keys for each run, or --pn from where
the last one ended, as its answer says.

Exit: 0 no rule was seen broken, 1 one was, or no frame came through, 2 the command line is wrong,
3 the machine lacks something, or it was stopped.";

/// The last number that a run without XPN begins with.
const PN_MAX: u64 = 1 << 30;

/// Words of `ferrule test macsec`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct MacsecArgs {
    /// The interface to the device's MACsec port.
    #[arg(long, value_name = "NAME")]
    pub interface: String,
    /// The interface to its clear side.
    #[arg(long, value_name = "NAME")]
    pub clear: String,
    /// The key file of the SAK of frames to the device.
    #[arg(long, value_name = "FILE", required_unless_present = "cak", conflicts_with = "cak")]
    key: Option<PathBuf>,
    /// The key file of the SAK of the device's frames [default: --key].
    #[arg(long, value_name = "FILE", requires = "key")]
    device_key: Option<PathBuf>,
    /// The key file of a CAK, to agree on SAKs by MKA.
    #[arg(long, value_name = "FILE", requires = "ckn")]
    pub cak: Option<PathBuf>,
    /// The name of the CAK, in hexadecimal digits.
    #[arg(long, value_name = "HEX", value_parser = ckn, requires = "cak")]
    pub ckn: Option<Ckn>,
    /// With MKA, key server priority of this station: the lowest serves; 255 never.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub priority: u8,
    /// With MKA, destination of messages.
    #[arg(long, value_name = "MAC", default_value_t = MacAddr(PAE_GROUP))]
    pub destination: MacAddr,
    /// The suite: gcm-aes-128, gcm-aes-256, gcm-aes-xpn-128, gcm-aes-xpn-256; with MKA as key server.
    #[arg(long, value_name = "NAME", value_parser = suite, default_value = "gcm-aes-128")]
    pub suite: Suite,
    /// Association number of frames to the device.
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=3))]
    an: u8,
    /// Association number of its frames [default: --an].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=3))]
    device_an: Option<u8>,
    /// This station's SCI, as ADDRESS/PORT [default: the interface's address, port 1].
    #[arg(long, value_name = "SCI", conflicts_with = "cak")]
    sci: Option<Sci>,
    /// The device's SCI [default: that of its first frame].
    #[arg(long, value_name = "SCI")]
    device_sci: Option<Sci>,
    /// With XPN, this station's SSCI.
    #[arg(long, value_name = "N", conflicts_with = "cak")]
    ssci: Option<u32>,
    /// With XPN, the device's.
    #[arg(long, value_name = "N", conflicts_with = "cak")]
    device_ssci: Option<u32>,
    /// The first packet number that is sent.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "cak",
          value_parser = clap::value_parser!(u64).range(1..=1 << 62))]
    pub pn: u64,
    /// Confidentiality offset: 0, 30 or 50.
    #[arg(long, value_name = "N", default_value = "0",
          value_parser = clap::builder::PossibleValuesParser::new(["0", "30", "50"]),
          conflicts_with = "cak")]
    offset: String,
    /// Frames are not encrypted.
    #[arg(long, conflicts_with = "cak")]
    integrity_only: bool,
    /// The device's replay window, up to 65536, or `off`.
    #[arg(long, value_name = "N", default_value = "0", value_parser = window)]
    window: Window,
    /// Octets of the largest frame without FCS [default: what the clear interface has].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1100..=9600))]
    largest: Option<u32>,
    /// The VLAN of a tagged frame.
    #[arg(long, value_name = "ID", default_value_t = 10,
          value_parser = clap::value_parser!(u16).range(1..=4094))]
    vlan: u16,
    /// Time for frames to pass.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "20s")]
    pub wait: Duration,
    /// Print JSON (schema ferrule-report/1) instead of the table.
    #[arg(long)]
    pub json: bool,
    /// Write one HTML page.
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

/// A replay window, or none.
#[derive(Clone, Copy, Debug)]
struct Window(Option<u64>);

fn window(text: &str) -> Result<Window, String> {
    match (text, text.parse()) {
        ("off", _) => Ok(Window(None)),
        (_, Ok(window @ 0..=65_536)) => Ok(Window(Some(window))),
        _ => Err(format!("`{text}` is neither a number up to 65536 nor `off`")),
    }
}

/// Both sides' associations.
pub struct Associations {
    pub own: Sa,
    pub device: Sa,
    pub sci: Sci,
    pub device_sci: Option<Sci>,
}

fn wrong(what: String, remedy: &str) -> Fault {
    Fault::new(Blame::Configuration, what, remedy)
}

/// A SAK and the salt beside it.
fn sak(path: &Path) -> Result<(Secret, Secret), Fault> {
    let remedy = "name the key file that has it: --key FILE, with a line `cipher HEX`";
    let file = load::private_file("SAK", path).map_err(|e| {
        let (what, remedy) = e.split_once('\n').unwrap_or((&e, remedy));
        wrong(what.into(), remedy)
    })?;
    config::sak(&file).map_err(|e| wrong(format!("SAK `{}`: {e}", path.display()), remedy))
}

/// An association of a suite; `file` names its key in words.
fn association(cipher: Cipher, an: u8, key: &Secret, xpn: Option<Xpn>) -> Result<Sa, Fault> {
    Sa::new(cipher, an, key, xpn).map_err(|e| wrong(e.to_string(), "choose the suite of the key"))
}

fn cipher(suite: Suite, encrypt: bool, offset: u8) -> Cipher {
    let aes = if suite.key_len() == 32 { Aes::Aes256 } else { Aes::Aes128 };
    let suite_of = ferrule_crypto::Suite::AesGcm(aes);
    Cipher { suite: suite_of, xpn: suite.is_xpn(), encrypt, offset }
}

impl MacsecArgs {
    /// The settings of the device; the clear interface has this MTU.
    pub fn told(&self, mtu: u32) -> Told {
        // Without the addresses.
        let largest = self.largest.unwrap_or_else(|| (mtu + 14).clamp(1100, 9600)) - 12;
        Told { window: self.window.0, largest: largest as usize, vlan: self.vlan }
    }

    /// Associations by static keys.
    pub fn by_keys(&self, mac: MacAddr) -> Result<Associations, Fault> {
        let offset = self.offset.parse().unwrap_or(0);
        let cipher = cipher(self.suite, !self.integrity_only, offset);
        if cipher.xpn && offset != 0 {
            return Err(wrong("an offset with XPN".into(), "leave out --offset"));
        }
        if !cipher.xpn && self.pn > PN_MAX {
            let what = format!("packet numbers from {}", self.pn);
            return Err(wrong(what, "take new keys: without XPN a key is worn out by then"));
        }
        let file = self.key.as_deref().unwrap_or(Path::new(""));
        let of = |file: &Path, an: u8, ssci: Option<u32>, word: &str| {
            let (key, salt) = sak(file)?;
            let xpn = match (cipher.xpn, ssci, salt.expose().try_into()) {
                (false, ..) => None,
                (true, Some(ssci), Ok(salt)) => Some(Xpn { salt, ssci }),
                (true, None, _) => {
                    return Err(wrong("an XPN suite without SSCI".into(), word));
                }
                (true, _, Err(_)) => {
                    let what = format!("SAK `{}` has no salt of 12 octets", file.display());
                    return Err(wrong(what, "add a line `salt HEX`, as the device has it"));
                }
            };
            association(cipher, an, &key, xpn)
        };
        Ok(Associations {
            own: of(file, self.an, self.ssci, "name this station's: --ssci N")?,
            device: of(
                self.device_key.as_deref().unwrap_or(file),
                self.device_an.unwrap_or(self.an),
                self.device_ssci,
                "name the device's: --device-ssci N",
            )?,
            sci: self.sci.unwrap_or(Sci::new(mac, Sci::PORT_END_STATION)),
            device_sci: self.device_sci,
        })
    }

    /// Associations by a SAK that was agreed on.
    pub fn by_mka(&self, mac: MacAddr, agreed: &Agreed) -> Result<Associations, Fault> {
        let offset = match agreed.confidentiality {
            Confidentiality::Offset30 => 30,
            Confidentiality::Offset50 => 50,
            _ => 0,
        };
        let encrypt = agreed.confidentiality != Confidentiality::None;
        let cipher = cipher(agreed.suite, encrypt, offset);
        let told = agreed.channels.iter().find(|c| Some(c.sci) == self.device_sci);
        let channel = told.or(agreed.channels.first());
        let xpn = |ssci| agreed.xpn.map(|xpn| Xpn { salt: xpn.salt, ssci });
        let own = agreed.xpn.map_or(0, |xpn| xpn.ssci);
        let device = channel.and_then(|channel| channel.ssci).unwrap_or(0);
        Ok(Associations {
            own: association(cipher, agreed.an, &agreed.sak, xpn(own))?,
            device: association(cipher, agreed.an, &agreed.sak, xpn(device))?,
            sci: Sci::new(mac, Sci::PORT_END_STATION),
            device_sci: channel.map(|channel| channel.sci),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::os::unix::fs::PermissionsExt;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        test: MacsecArgs,
    }

    fn args(words: &str) -> Result<MacsecArgs, clap::Error> {
        let words = format!("macsec --interface a --clear b {words}");
        Line::try_parse_from(words.split_whitespace()).map(|line| line.test)
    }

    #[test]
    fn macsec_command_line_is_by_keys_or_by_a_cak() {
        for wrong in ["", "--key k --cak c --ckn 01", "--cak c", "--key k --window 65537"] {
            assert!(args(wrong).is_err(), "{wrong}");
        }
        for wrong in ["--key k --an 4", "--key k --offset 31", "--cak c --ckn 01 --ssci 1"] {
            assert!(args(wrong).is_err(), "{wrong}");
        }
        let told = args("--key k --window off").expect("words").told(1500);
        assert_eq!((told.window, told.largest), (None, 1502));
        assert!(args("--cak c --ckn 0011").is_ok());
    }

    #[test]
    fn macsec_keys_that_do_not_fit_are_refused_with_a_remedy() {
        let file = std::env::temp_dir().join(format!("ferrule-sak-{}", std::process::id()));
        std::fs::write(&file, format!("cipher {}\n", "0a".repeat(16))).expect("a file");
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&file, mode).expect("its mode");
        let asked = |words: &str| {
            let args = args(&format!("--key {} {words}", file.display())).expect("words");
            args.by_keys(MacAddr([2, 0, 0, 0, 0, 1])).map_err(|fault| fault.to_string())
        };
        let fits = asked("").expect("associations");
        assert_eq!(fits.sci.to_string(), "02:00:00:00:00:01/1");
        for (words, said) in [
            ("--suite gcm-aes-256", "needs 32"),
            ("--suite gcm-aes-xpn-128", "--ssci N"),
            ("--suite gcm-aes-xpn-128 --ssci 1", "no salt"),
            ("--suite gcm-aes-xpn-128 --offset 30", "offset"),
            ("--pn 2000000000", "take new keys"),
        ] {
            let error = asked(words).err().unwrap_or_else(|| panic!("{words}: no fault"));
            assert!(error.contains(said), "{words}: {error}");
        }
        std::fs::remove_file(&file).expect("the file");
    }
}
