//! Device between two interfaces, as far as this machine can see it: reports name it when the user
//! names none.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the kernel says what it knows of interfaces.
const CLASS: &str = "/sys/class/net";

/// The device between these interfaces.
pub fn between(interfaces: &[&str]) -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    describe(Path::new(CLASS), interfaces, release.trim())
}

fn describe(class: &Path, interfaces: &[&str], release: &str) -> String {
    let masters: Vec<Option<PathBuf>> = interfaces.iter().map(|i| beyond(class, i)).collect();
    match &masters[..] {
        [Some(first), rest @ ..] if rest.iter().all(|m| m.as_ref() == Some(first)) => {
            let name = first.file_name().unwrap_or_default().to_string_lossy();
            let kind = if first.join("bridge").is_dir() { "Linux bridge" } else { "Linux device" };
            format!("{kind} {name}, Linux {release}")
        }
        _ => format!("not named: what stands between {}", interfaces.join(" and ")),
    }
}

/// The master of a veth's other end, where that is in this namespace.
fn beyond(class: &Path, interface: &str) -> Option<PathBuf> {
    let number = |name: &Path, file: &str| {
        let text = fs::read_to_string(class.join(name).join(file)).ok()?;
        text.trim().parse::<u32>().ok()
    };
    let own = Path::new(interface);
    let (index, peer) = (number(own, "ifindex")?, number(own, "iflink")?);
    let is_peer = |name: &PathBuf| {
        peer != index
            && number(name, "ifindex") == Some(peer)
            && number(name, "iflink") == Some(index)
    };
    let names = fs::read_dir(class).ok()?.filter_map(|entry| Some(entry.ok()?.file_name()));
    let peer = names.map(PathBuf::from).find(is_peer)?;
    fs::canonicalize(class.join(peer).join("master")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn device_is_the_bridge_behind_both_ports_or_not_named() {
        let class = std::env::temp_dir().join(format!("ferrule-class-{}", std::process::id()));
        let _ = fs::remove_dir_all(&class);
        for (name, index, link) in [("a", 1, 2), ("pa", 2, 1), ("b", 3, 4), ("pb", 4, 3)] {
            fs::create_dir_all(class.join(name)).unwrap();
            fs::write(class.join(name).join("ifindex"), format!("{index}\n")).unwrap();
            fs::write(class.join(name).join("iflink"), format!("{link}\n")).unwrap();
        }
        let unknown = "not named: what stands between a and b";
        assert_eq!(describe(&class, &["a", "b"], "6.1.0"), unknown);
        fs::create_dir_all(class.join("br7/bridge")).unwrap();
        symlink(class.join("br7"), class.join("pa/master")).unwrap();
        assert_eq!(describe(&class, &["a", "b"], "6.1.0"), unknown, "one end alone");
        symlink(class.join("br7"), class.join("pb/master")).unwrap();
        assert_eq!(describe(&class, &["a", "b"], "6.1.0"), "Linux bridge br7, Linux 6.1.0");
        fs::remove_dir_all(&class).unwrap();
    }
}
