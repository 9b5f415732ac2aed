//! A configuration and its key files, from the disk.

use crate::credentials::{CREDENTIAL, Credentials, is_credential, placeholder};
use crate::fault::{Blame, Fault, Source};
use crate::token;
use ferrule_base::Secret;
use ferrule_engines::token::Pkcs11Token;
use ferrule_node::config::{Config, KeySource, TOKEN_KEY, TokenConfig};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Octets of a configuration at most.
pub const CONFIG_MAX: u64 = 16 << 20;
/// Octets of a key file at most.
pub const KEY_FILE_MAX: u64 = 4096;

/// A configuration that was read and understood.
pub struct Loaded {
    /// Meaning of the file.
    pub config: Config,
    /// Text of the file.
    pub source: Source,
    /// The key files that it names, by the name in it.
    pub keys: BTreeMap<String, Secret>,
    /// Credentials of this process.
    pub(crate) credentials: Credentials,
}

/// Reads a configuration and the key files that it names, which are looked for
/// in its own folder, and credentials.
pub fn load(path: &Path) -> Result<Loaded, Fault> {
    load_with(path, &Credentials::of_service(), false)
}

/// Reads a configuration again, with credentials that were read before.
pub(crate) fn load_again(path: &Path, credentials: &Credentials) -> Result<Loaded, Fault> {
    load_with(path, credentials, false)
}

/// Reads a configuration that is to be sent to a node. Credentials are left to that node.
pub fn load_to_send(path: &Path) -> Result<Loaded, Fault> {
    load_with(path, &Credentials::default(), true)
}

fn load_with(path: &Path, credentials: &Credentials, leaves: bool) -> Result<Loaded, Fault> {
    let source = source(path)?;
    let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
    let (token, read) = (None, BTreeMap::new());
    let mut keys = Disk { folder: &folder, credentials, leaves, token, read };
    let mut config = parse(&source, &mut keys)?;
    let keys = keys.read;
    anchor(&mut config, &folder);
    Ok(Loaded { config, source, keys, credentials: credentials.clone() })
}

pub(crate) fn source(path: &Path) -> Result<Source, Fault> {
    let file = path.display().to_string();
    let text = text_of(path).map_err(|e| {
        let remedy = match e.kind() {
            io::ErrorKind::NotFound => "`ferrule init` writes one to start from",
            _ => "see whether the path and its permissions are right",
        };
        Fault::environment(format!("{file}: {e}"), remedy)
    })?;
    Ok(Source { file, text })
}

/// The management socket of the node of a configuration, found without
/// understanding the rest of it or reading a key.
pub fn socket_of(path: &Path) -> Result<PathBuf, Fault> {
    let source = source(path)?;
    let name = source.value("node", "name").unwrap_or_default();
    let folder = path.parent().unwrap_or(Path::new("."));
    let control = source.value("node", "control").map(|c| absolute(folder, c));
    Ok(crate::api::socket_path(control.as_deref(), name))
}

/// Keys as a client sends them to a node that runs: the text of each file, and the name
/// of each key on a token, which is no text, in hexadecimal digits.
pub fn to_send(keys: &BTreeMap<String, Secret>) -> BTreeMap<String, String> {
    let text = |secret: &Secret| String::from_utf8_lossy(secret.expose()).into_owned();
    let digits = |secret: &Secret| secret.expose().iter().map(|o| format!("{o:02x}")).collect();
    let each = keys.iter().map(|(name, secret)| {
        let sent = if name.starts_with(TOKEN_KEY) { digits(secret) } else { text(secret) };
        (name.clone(), sent)
    });
    each.collect()
}

/// Keys as they were before a client [sent](to_send) them.
pub fn received(keys: BTreeMap<String, String>) -> Result<BTreeMap<String, Secret>, Fault> {
    let each = keys.into_iter().map(|(name, sent)| {
        let secret = match name.strip_prefix(TOKEN_KEY) {
            None => Secret::new(sent.into_bytes()),
            Some(label) => Secret::from_hex(&sent).map_err(|_| {
                let what = format!("the name of key `{label}` on the token was garbled on its way");
                Fault::environment(what, "use `ferrule apply` of the version that runs")
            })?,
        };
        Ok((name, secret))
    });
    each.collect()
}

/// Reads a configuration whose key files were read elsewhere, except for credentials.
pub fn from_parts(
    file: &str,
    text: &str,
    keys: &BTreeMap<String, Secret>,
    credentials: &Credentials,
) -> Result<Loaded, Fault> {
    let source = Source { file: file.into(), text: text.into() };
    let mut config = parse(&source, &mut Sent { keys, credentials })?;
    let folder = Path::new(file).parent().unwrap_or(Path::new("."));
    anchor(&mut config, folder);
    Ok(Loaded { config, source, keys: keys.clone(), credentials: credentials.clone() })
}

/// Files are found from the configuration's folder, wherever the daemon starts.
fn anchor(config: &mut Config, folder: &Path) {
    let token = config.token.as_mut().map(|t| [&mut t.module, &mut t.pin_file]);
    let own = [&mut config.state, &mut config.control].into_iter().flatten();
    for path in own.chain(token.into_iter().flatten()) {
        *path = absolute(folder, path);
    }
}

fn absolute(folder: &Path, path: &str) -> String {
    let path = folder.join(path);
    std::path::absolute(&path).unwrap_or(path).display().to_string()
}

fn parse(source: &Source, keys: &mut dyn KeySource) -> Result<Config, Fault> {
    let config = Config::parse(&source.file, &source.text, keys);
    let config = config.map_err(|e| Fault::in_file(Blame::Configuration, &e))?;
    let sends = !config.tunnels.is_empty() || config.secys.iter().any(|s| !s.transmit.is_empty());
    if sends && config.state.is_none() {
        // A process that reads files has the system's ports. A laboratory in virtual time ends
        // with its keys; a process that starts again has the same ones.
        return Err(source.fault(
            Blame::Configuration,
            ["node", "name", &config.name],
            "SAs on real ports, and no place to keep their counters",
            "add state = \"FOLDER\" to [node], then `ferrule state create`: lab = true does \
             without in virtual time alone",
        ));
    }
    Ok(config)
}

fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(CONFIG_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > CONFIG_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 16 MiB"));
    }
    Ok(text)
}

/// Key files of a folder, and the token, as the configuration names them.
struct Disk<'a> {
    folder: &'a Path,
    credentials: &'a Credentials,
    /// Credentials are left to the node.
    leaves: bool,
    token: Option<Pkcs11Token>,
    read: BTreeMap<String, Secret>,
}

impl KeySource for Disk<'_> {
    fn derive(&mut self, name: &str, lengths: [(&str, usize); 3]) -> Option<Secret> {
        let credential = name.strip_prefix(CREDENTIAL).filter(|_| self.leaves)?;
        is_credential(credential).then(|| placeholder(credential, lengths))
    }

    fn read(&mut self, name: &str) -> Result<Secret, String> {
        if let Some(credential) = name.strip_prefix(CREDENTIAL) {
            return self.credentials.get(credential);
        }
        let secret = private_file("key file", &self.folder.join(name))?;
        self.read.insert(name.to_owned(), secret.clone());
        Ok(secret)
    }

    fn token(&mut self, table: &TokenConfig, label: &str, len: usize) -> Result<Secret, String> {
        let open = match self.token.take() {
            Some(open) => open,
            None => token::open(table, self.folder)?,
        };
        let secret = token::identity(self.token.insert(open), label, len)?;
        self.read.insert(format!("{TOKEN_KEY}{label}"), secret.clone());
        Ok(secret)
    }
}

/// Keys that were read elsewhere, and credentials.
struct Sent<'a> {
    keys: &'a BTreeMap<String, Secret>,
    credentials: &'a Credentials,
}

impl KeySource for Sent<'_> {
    fn read(&mut self, name: &str) -> Result<Secret, String> {
        if let Some(credential) = name.strip_prefix(CREDENTIAL) {
            return self.credentials.get(credential);
        }
        let missing = || format!("key file `{name}` was not sent along");
        self.keys.get(name).cloned().ok_or_else(missing)
    }

    fn token(&mut self, _: &TokenConfig, label: &str, _: usize) -> Result<Secret, String> {
        self.read(&format!("{TOKEN_KEY}{label}"))
    }
}

/// Reads a file that only its owner may read; `kind` names it in errors.
pub fn private_file(kind: &str, path: &Path) -> Result<Secret, String> {
    let shown = path.display();
    // (A pipe would wait for somebody to write.)
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = File::options().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => format!("{kind} `{shown}` is not there"),
        io::ErrorKind::PermissionDenied => {
            format!("{kind} `{shown}` may not be read by this user\nrun as its owner, or as root")
        }
        _ => format!("{kind} `{shown}`: {e}"),
    })?;
    let about = file.metadata().map_err(|e| format!("{kind} `{shown}`: {e}"))?;
    if !about.is_file() {
        return Err(format!("{kind} `{shown}` is not a file"));
    }
    let mode = about.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "{kind} `{shown}` may be read by others (mode {mode:04o})\n`chmod 600 {shown}`"
        ));
    }
    let mut octets = Vec::with_capacity(KEY_FILE_MAX as usize + 1);
    file.take(KEY_FILE_MAX + 1)
        .read_to_end(&mut octets)
        .map_err(|e| format!("{kind} `{shown}`: {e}"))?;
    let secret = Secret::new(octets);
    if secret.len() as u64 > KEY_FILE_MAX {
        return Err(format!("{kind} `{shown}` is larger than {KEY_FILE_MAX} octets"));
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_node::config::named_key;
    use std::fs::{self, Permissions};

    #[test]
    fn a_laboratory_node_on_real_ports_keeps_counters_as_any_other() {
        let node = |line: &str| {
            format!(
                "[node]\nname = \"gw\"\nlab = true\n{line}[[port]]\nname = \"wan\"\n\
                 driver = \"af-packet\"\ndevice = \"eth0\"\n[[interface]]\nport = \"wan\"\n\
                 address = [\"192.0.2.1/24\"]\n[[tunnel]]\nname = \"t\"\n\
                 local = \"192.0.2.1\"\nremote = \"192.0.2.2\"\nsuite = \"aes-gcm-128\"\n\
                 out = {{ spi = 4097, key = \"gcm:1\" }}\nin = {{ spi = 4098, key = \"gcm:2\" }}\n"
            )
        };
        let keys = ["gcm:1", "gcm:2"].map(|name| (name.to_owned(), named_key(name).unwrap()));
        let (keys, none) = (BTreeMap::from(keys), Credentials::default());
        let error = from_parts("/gw/gw.toml", &node(""), &keys, &none).err().expect("refused");
        assert_eq!(error.blame, Blame::Configuration);
        let text = error.to_string();
        for part in ["/gw/gw.toml:2", "SAs on real ports", "state = \"FOLDER\""] {
            assert!(text.contains(part), "{text}");
        }
        let loaded = from_parts("/gw/gw.toml", &node("state = \"s\"\n"), &keys, &none);
        assert_eq!(loaded.expect("it is fine").config.state.as_deref(), Some("/gw/s"));
    }

    #[test]
    fn a_credential_is_the_nodes_and_no_client_sends_it() {
        let folder = std::env::temp_dir().join(format!("ferrule-sent-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("gw.toml");
        let text = "[node]\nname = \"gw\"\n[[port]]\nname = \"wan\"\ndriver = \"af-packet\"\n\
                    device = \"eth0\"\n[[macsec]]\nport = \"wan\"\n\
                    mka = { cak = [{ ckn = \"01\", key = \"credential:cak\" }] }\n";
        fs::write(&path, text).unwrap();
        let (asked, sent) = (load(&path), load_to_send(&path));
        fs::remove_dir_all(&folder).unwrap();
        let error = asked.err().expect("it is nobody's here").to_string();
        assert!(error.contains("gw.toml:9") && error.contains("systemd-run"), "{error}");
        // Understood, but for the key, which the node has.
        let sent = sent.unwrap_or_else(|e| panic!("{e}"));
        assert!(sent.keys.is_empty());
        let none = Credentials::default();
        let error = from_parts(&sent.source.file, text, &sent.keys, &none).err();
        assert!(error.expect("it has none either").to_string().contains("credential `cak`"));
    }

    #[test]
    fn names_of_keys_on_a_token_arrive_at_a_running_node_as_they_were() {
        let name = format!("{TOKEN_KEY}gateway");
        // Every octet there is: hardly ever text.
        let identity = Secret::new((0..=255).collect());
        let file = Secret::new(b"cipher 00\n".to_vec());
        let keys = BTreeMap::from([(name.clone(), identity), ("a.key".into(), file)]);
        let sent = serde_json::to_string(&to_send(&keys)).unwrap();
        let back = received(serde_json::from_str(&sent).unwrap()).unwrap();
        assert_eq!(back.len(), 2);
        assert!(keys.iter().all(|(name, secret)| back[name].same_as(secret)));
        let garbled = received(BTreeMap::from([(name, "\u{fffd}1".into())])).unwrap_err();
        assert!(garbled.to_string().contains("`gateway` on the token was garbled"), "{garbled}");
    }

    #[test]
    fn key_files_that_others_may_read_are_refused_with_the_remedy() {
        let path = std::env::temp_dir().join(format!("ferrule-key-{}", std::process::id()));
        fs::write(&path, "cipher 00\n").unwrap();
        for (mode, fine) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            match private_file("key file", &path) {
                Ok(secret) => assert!(fine && secret.expose() == b"cipher 00\n"),
                Err(e) => assert!(!fine && e.contains("chmod 600"), "{e}"),
            }
        }
        fs::write(&path, vec![b'#'; KEY_FILE_MAX as usize + 1]).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(private_file("key file", &path).unwrap_err().contains("larger"));
        fs::remove_file(&path).unwrap();
        assert!(private_file("key file", &path).unwrap_err().contains("is not there"));
        assert!(private_file("key file", &std::env::temp_dir()).is_err());
        // A pipe to which nobody writes.
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
        assert!(private_file("key file", &path).unwrap_err().contains("is not a file"));
        fs::remove_file(&path).unwrap();
    }
}
