//! Keys that a service manager hands to a unit: `key = "credential:NAME"` is the credential NAME
//! of systemd's `LoadCredential=` and `LoadCredentialEncrypted=`.
//!
//! Their files are in `$CREDENTIALS_DIRECTORY`, which the processes of the unit have at its start and
//! nobody else. A node reads them once, before it gives up its rights, and keeps them for the
//! configurations to come: neither `systemctl reload` nor a client of the node can see them.

use crate::load::{KEY_FILE_MAX, private_file};
use ferrule_base::Secret;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::{env, fs};

/// Beginning of the name of a key that is a credential.
pub const CREDENTIAL: &str = "credential:";
/// Credentials of a unit at most.
const MOST: usize = 4096;

/// True for a name that a credential may have (systemd.exec(5)).
pub(crate) fn is_credential(name: &str) -> bool {
    let is_printable = name.bytes().all(|octet| matches!(octet, b' '..=b'~'));
    let is_path = name.contains(['/', ':']) || name == "." || name == "..";
    (1..=255).contains(&name.len()) && is_printable && !is_path
}

/// The credentials of this process, or none.
#[derive(Clone, Default)]
pub struct Credentials(Option<Arc<BTreeMap<String, Result<Secret, String>>>>);

impl Credentials {
    /// Credentials of `$CREDENTIALS_DIRECTORY`.
    pub fn of_service() -> Self {
        let folder = env::var_os("CREDENTIALS_DIRECTORY");
        folder.map_or_else(Self::default, |folder| Self::in_folder(Path::new(&folder)))
    }

    fn in_folder(folder: &Path) -> Self {
        // Where a process of the unit cannot see the folder, as at a reload, it has none.
        let Ok(files) = fs::read_dir(folder) else { return Self::default() };
        let files = files.flatten().take(MOST);
        let read = files.filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            let secret = private_file("credential", &file.path());
            Some((name, secret))
        });
        Self(Some(Arc::new(read.collect())))
    }

    /// The key file that is the credential of this name.
    pub fn get(&self, name: &str) -> Result<Secret, String> {
        if !is_credential(name) {
            return Err(format!(
                "`{CREDENTIAL}{}` names no credential\n\
                 write the name behind LoadCredential=, up to 255 characters without `/` and `:`",
                name.escape_debug()
            ));
        }
        let Some(all) = &self.0 else {
            return Err(format!(
                "credential `{name}` is the service's alone\n\
                 run this in a unit that has it: systemd-run --pipe \
                 --property=LoadCredential={name}:FILE ferrule …"
            ));
        };
        all.get(name).cloned().unwrap_or_else(|| {
            Err(format!(
                "the service has no credential `{name}`\n\
                 name it in the unit, LoadCredential={name}:FILE, and restart the node"
            ))
        })
    }
}

/// The text of a key file in place of a credential that only the node has: it has the words that
/// are needed, and nobody's key.
pub(crate) fn placeholder(name: &str, lengths: [(&str, usize); 3]) -> Secret {
    let mut text = String::new();
    for (word, len) in lengths.into_iter().filter(|(_, len)| *len > 0) {
        let print = ferrule_crypto::fingerprint(&Secret::new(name.into()), word.as_bytes());
        let _ = write!(text, "{word} ");
        print.iter().cycle().take(len).for_each(|octet| _ = write!(text, "{octet:02x}"));
        text.push('\n');
    }
    debug_assert!(text.len() as u64 <= KEY_FILE_MAX);
    Secret::new(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_credential_is_a_file_of_the_services_folder() {
        let folder = env::temp_dir().join(format!("ferrule-credentials-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (name, mode) in [("to-b.key", 0o400), ("open.key", 0o444)] {
            let path = folder.join(name);
            let _ = fs::remove_file(&path);
            fs::write(&path, "cipher 00\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let own = Credentials::in_folder(&folder);
        fs::remove_dir_all(&folder).unwrap();
        // Kept, whatever became of the folder.
        assert_eq!(own.get("to-b.key").unwrap().expose(), b"cipher 00\n");
        assert!(own.get("open.key").unwrap_err().contains("may be read by others"));
        assert!(own.get("other").unwrap_err().contains("has no credential"));
        for wrong in ["", "../etc/passwd", "a:b", "..", "\0", "\u{e4}", &"a".repeat(256)] {
            assert!(own.get(wrong).unwrap_err().contains("names no credential"), "{wrong}");
        }
        // The folder is gone, as for a reload.
        for none in [Credentials::default(), Credentials::in_folder(&folder)] {
            assert!(none.get("to-b.key").unwrap_err().contains("systemd-run"));
        }
    }
}
