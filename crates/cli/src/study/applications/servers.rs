//! FTP, SMTP and Telnet servers of Debian's on one host, without a service manager: they
//! live in the namespace alone, and end with it.
//!
//! | daemon | what it has |
//! | --- | --- |
//! | vsftpd | a file of every size, for anybody |
//! | OpenSMTPD | a mailbox for everybody; queue, control socket in a mount namespace of its own |
//! | inetd with telnetd | a shell of the user `nobody`, and the same files |

use super::hosts::{Hosts, Place};
use crate::process::{Background, Fault, write};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Letters of a line of the files.
const LINE: usize = 72;
/// Daemons, and the Debian packages that have them.
const DAEMONS: [(&str, &str); 4] = [
    ("vsftpd", "vsftpd"),
    ("smtpd", "opensmtpd"),
    ("inetutils-inetd", "inetutils-inetd"),
    ("telnetd", "inetutils-telnetd"),
];

/// The servers' folders.
pub struct Files {
    top: PathBuf,
}

impl Files {
    /// Makes them, with a file and a message of each size.
    pub fn new(top: &Path, sizes: &[usize]) -> Result<Self, Fault> {
        let files = Self::at(top);
        // Daemons serve as users of their own. Mail arrives as nobody.
        let folders = [("", 0o711), ("ftp", 0o755), ("mail", 0o777), ("run", 0o711)];
        for (name, mode) in folders.into_iter().chain([("empty", 0o555), ("sent", 0o755)]) {
            let path = top.join(name);
            let made = fs::create_dir_all(&path)
                .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(mode)));
            made.map_err(|e| Fault::failed(path.display().to_string(), e))?;
        }
        for &octets in sizes {
            let text = text(octets);
            write(&files.file(octets), &text)?;
            let all = fs::set_permissions(files.file(octets), Permissions::from_mode(0o644));
            all.map_err(|e| Fault::failed("a file for everybody", e))?;
            let mut message = format!("Subject: {octets}\n\n").into_bytes();
            message.extend_from_slice(&text);
            write(&files.message(octets), &message)?;
        }
        Ok(files)
    }

    /// The file of this size.
    pub fn file(&self, octets: usize) -> PathBuf {
        self.top.join("ftp").join(name(octets))
    }

    /// A message with this body.
    pub fn message(&self, octets: usize) -> PathBuf {
        self.top.join("sent").join(name(octets))
    }

    /// Where mail is delivered.
    pub fn mail(&self) -> PathBuf {
        self.top.join("mail")
    }

    /// Files that another process has made in this directory.
    pub fn at(top: &Path) -> Self {
        Self { top: top.to_owned() }
    }

    fn config(&self, name: &str, text: &str, mode: u32) -> Result<PathBuf, Fault> {
        let path = self.top.join(name);
        write(&path, text.as_bytes())?;
        let set = fs::set_permissions(&path, Permissions::from_mode(mode));
        set.map_err(|e| Fault::failed(path.display().to_string(), e))?;
        Ok(path)
    }
}

/// The name of a file of this size.
pub fn name(octets: usize) -> String {
    format!("f{octets}")
}

/// Lines of letters, which no protocol has to change but for the ends of lines.
pub fn text(octets: usize) -> Vec<u8> {
    let mut state = 0x2001_u32;
    let letter = |at: usize| {
        if at % (LINE + 1) == LINE {
            return b'\n';
        }
        // xorshift; any letters do that do not repeat soon.
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        b'a' + (state % 26) as u8
    };
    (0..octets).map(letter).collect()
}

/// Where a daemon is: those of Debian lie where only root's path may lead.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Programs that are missing, each with its package.
pub fn missing() -> Vec<(&'static str, &'static str)> {
    let client = [("curl", "curl")];
    DAEMONS.into_iter().chain(client).filter(|(program, _)| find(program).is_none()).collect()
}

fn found(program: &str) -> Result<PathBuf, Fault> {
    let package = DAEMONS.iter().find(|(name, _)| *name == program).map_or("", |(_, name)| *name);
    let missing = || Fault::Missing(format!("not installed: {program}"), package.into());
    find(program).ok_or_else(missing)
}

/// Starts all three.
pub fn start(hosts: &Hosts<'_>, files: &Files) -> Result<Vec<Background>, Fault> {
    Ok(vec![ftp(hosts, files)?, smtp(hosts, files)?, telnet(hosts, files)?])
}

fn ftp(hosts: &Hosts<'_>, files: &Files) -> Result<Background, Fault> {
    let top = files.top.display();
    // Its own filter of system calls ends its workers on kernels newer than it.
    let text = format!(
        "listen=YES\nbackground=NO\nanonymous_enable=YES\nlocal_enable=NO\nno_anon_password=YES\n\
         anon_root={top}/ftp\nsecure_chroot_dir={top}/empty\nseccomp_sandbox=NO\n\
         isolate_network=NO\npasv_min_port=40000\npasv_max_port=40999\n"
    );
    let config = files.config("vsftpd.conf", &text, 0o600)?;
    let mut command = hosts.on(Place::Server);
    command.arg(found("vsftpd")?).arg(config);
    Background::start("vsftpd", &mut command, &files.top.join("vsftpd.log"))
}

fn smtp(hosts: &Hosts<'_>, files: &Files) -> Result<Background, Fault> {
    let top = files.top.display();
    let text = format!(
        "smtp max-message-size 64M\ntable anyone {{ \"@\" = \"nobody\" }}\n\
         listen on 0.0.0.0 port 25\naction \"keep\" maildir \"{top}/mail\" virtual <anyone>\n\
         match from any for any action \"keep\"\n"
    );
    let config = files.config("smtpd.conf", &text, 0o600)?;
    // Queue and control socket have fixed places: here they are nobody else's.
    let script = "mount --make-rprivate / && mkdir -p /var/spool/smtpd && \
                  mount -t tmpfs -o mode=711 spool /var/spool/smtpd && \
                  mount --bind \"$1\" /run && exec \"$2\" -d -f \"$3\"";
    let mut command = hosts.on(Place::Server);
    command.args(["unshare", "-m", "sh", "-c", script, "smtpd"]);
    command.arg(files.top.join("run")).arg(found("smtpd")?).arg(config);
    Background::start("smtpd", &mut command, &files.top.join("smtpd.log"))
}

fn telnet(hosts: &Hosts<'_>, files: &Files) -> Result<Background, Fault> {
    let login = "#!/bin/sh\n\
                 exec setpriv --reuid nobody --regid nogroup --clear-groups /bin/sh -i\n";
    let login = files.config("login", login, 0o755)?;
    let telnetd = found("telnetd")?;
    let text = format!(
        "23 stream tcp nowait root {} telnetd -h -E {}\n",
        telnetd.display(),
        login.display()
    );
    let config = files.config("inetd.conf", &text, 0o600)?;
    let mut command = hosts.on(Place::Server);
    command.arg(found("inetutils-inetd")?).arg("-d").arg(config);
    Background::start("inetd", &mut command, &files.top.join("inetd.log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_lines_of_letters_of_the_size_that_was_asked_for() {
        for octets in [1, 72, 73, 74, 1000] {
            let text = text(octets);
            assert_eq!(text.len(), octets);
            let whole = text.iter().all(|octet| octet.is_ascii_lowercase() || *octet == b'\n');
            assert!(whole, "{octets}");
            assert!(text.split(|octet| *octet == b'\n').all(|line| line.len() <= LINE));
        }
        assert_ne!(text(72), text(146)[73..145], "lines differ");
    }
}
