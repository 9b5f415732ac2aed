//! Rules of layers: the crates that each may use, the system calls that pure crates may not make,
//! the places where unsafe may stand.

use crate::{
    Finding, Source,
    manifest::{self, Table},
};

/// A crate, the crates of this tree that it may use, and true if it is pure.
pub struct Layer {
    /// Folder below `crates/`.
    pub name: &'static str,
    /// Folders of the crates that it may name in `[dependencies]`.
    pub uses: &'static [&'static str],
    /// Without an operating system: also runs in virtual time and in a browser.
    pub pure: bool,
}

/// The layers: what may be; ARCHITECTURE.md draws what is. A new crate gets a line here.
pub const LAYERS: &[Layer] = &[
    Layer { name: "base", uses: &[], pure: true },
    Layer { name: "wire", uses: &["base"], pure: true },
    Layer { name: "crypto", uses: &["base"], pure: true },
    Layer { name: "pipeline", uses: &["base"], pure: true },
    Layer { name: "dataplane", uses: &["base", "wire", "crypto", "pipeline"], pure: true },
    Layer { name: "control", uses: &["base", "wire", "crypto"], pure: true },
    Layer { name: "formulas", uses: &[], pure: true },
    Layer { name: "overhead", uses: &["base", "crypto"], pure: true },
    Layer {
        name: "node",
        uses: &["base", "wire", "crypto", "pipeline", "dataplane", "control"],
        pure: true,
    },
    Layer {
        name: "lab",
        uses: &[
            "base",
            "wire",
            "crypto",
            "engines",
            "pipeline",
            "dataplane",
            "control",
            "node",
            "tester",
        ],
        pure: true,
    },
    Layer { name: "tester", uses: &["base", "wire", "pipeline"], pure: true },
    Layer { name: "engines", uses: &["base", "crypto", "pipeline"], pure: false },
    Layer { name: "ports", uses: &["base", "wire", "pipeline"], pure: false },
    Layer { name: "dashboard", uses: &["crypto"], pure: false },
    Layer {
        name: "daemon",
        uses: &[
            "base",
            "dashboard",
            "wire",
            "crypto",
            "pipeline",
            "dataplane",
            "control",
            "node",
            "ports",
            "engines",
        ],
        pure: false,
    },
    Layer {
        name: "cli",
        uses: &[
            "base",
            "dashboard",
            "wire",
            "crypto",
            "pipeline",
            "dataplane",
            "control",
            "node",
            "overhead",
            "lab",
            "ports",
            "engines",
            "daemon",
            "report",
            "tester",
            "studies",
        ],
        pure: false,
    },
    Layer { name: "report", uses: &["base"], pure: true },
    Layer {
        name: "studies",
        uses: &[
            "base", "wire", "crypto", "engines", "formulas", "node", "overhead", "lab", "tester",
            "report",
        ],
        pure: true,
    },
    Layer { name: "xtask", uses: &[], pure: false },
];

/// Names that a pure crate's code may not use, each with the remedy.
const SYSTEM: &[(&str, &str)] = &[
    ("std::fs", "take the bytes"),
    ("std::thread", "the daemon has the threads"),
    ("std::process", "return"),
    ("std::os", "ports and daemon touch the system"),
    ("std::io::stdin", "take the bytes"),
    ("std::io::stdout", "return the text"),
    ("std::io::stderr", "return the text"),
    ("std::net::TcpStream", "take frames"),
    ("std::net::TcpListener", "take frames"),
    ("std::net::UdpSocket", "take frames"),
    ("TcpStream", "take frames"),
    ("UdpSocket", "take frames"),
    ("std::time::Instant", "take base::Instant"),
    ("SystemTime", "take base::Instant"),
    ("Instant::now", "take the time as an argument"),
    ("println!", "return the text"),
    ("eprintln!", "return the text"),
    ("libc", "ports and daemon touch the system"),
];

/// Crates that bring the operating system or its randomness along.
pub const SYSTEM_CRATES: &[&str] = &[
    "libc",
    "nix",
    "rustix",
    "socket2",
    "mio",
    "tokio",
    "signal-hook",
    "tiny_http",
    "getrandom",
    "rand",
    "aws-lc-rs",
];

/// Paths, by prefix, where `unsafe` may stand.
const UNSAFE_ROOMS: &[&str] = &[
    "crates/crypto/src/accel/",
    "crates/crypto/src/accel.rs",
    "crates/pipeline/src/buffer.rs",
    "crates/pipeline/src/buffer/",
    "crates/engines/",
    "crates/ports/",
    "benches/benches/mka/heap.rs",
    "web/models/src/lib.rs",
];

/// A manifest's `[dependencies]` tables against [`LAYERS`].
pub fn dependencies(folder: &str, manifest: &str) -> Vec<Finding> {
    let path = format!("crates/{folder}/Cargo.toml");
    let finding = |line, what| Finding { path: path.clone(), line, what };
    let Some(layer) = LAYERS.iter().find(|l| l.name == folder) else {
        return vec![finding(0, "the crate has no line in LAYERS".into())];
    };
    let mut findings = Vec::new();
    for used in manifest::dependencies(manifest) {
        if let Some(other) = used.folder() {
            if !layer.uses.contains(&other) {
                findings.push(finding(used.line, format!("{folder} may not use {other}")));
            }
        } else if layer.pure
            && SYSTEM_CRATES.contains(&used.name.as_str())
            && used.table == Table::Everywhere
        {
            let what = format!("{} brings the operating system along", used.name);
            findings.push(finding(used.line, what));
        }
    }
    findings
}

/// Uses of the operating system in a crate that is pure.
pub fn purity(source: &Source) -> Vec<Finding> {
    let pure = LAYERS.iter().any(|l| l.pure && Some(l.name) == source.crate_name());
    if !pure || source.is_test() || source.path.ends_with("build.rs") {
        return Vec::new();
    }
    let visible = Source { code: source.without_test_modules(), ..source.clone() };
    let mut findings = Vec::new();
    for &(name, instead) in SYSTEM {
        for at in visible.words(name) {
            findings.push(Finding {
                path: source.path.clone(),
                line: source.line_of(at),
                what: format!("{name} in a pure crate: {instead}"),
            });
        }
    }
    for at in visible.words("std") {
        for name in grouped(&visible.code[at..]) {
            findings.push(Finding {
                path: source.path.clone(),
                line: source.line_of(at),
                what: format!("std::{name} in a pure crate"),
            });
        }
    }
    findings
}

/// System modules in a grouped import, `use std::{fs, net::..}`.
fn grouped(from: &str) -> Vec<&'static str> {
    let Some(rest) = from.strip_prefix("std::{") else { return Vec::new() };
    let Some(end) = rest.find(';') else { return Vec::new() };
    let group = Source::new("", &rest[..end]);
    ["fs", "thread", "process", "os"]
        .into_iter()
        .filter(|name| group.words(name).next().is_some())
        .collect()
}

/// `unsafe` outside its rooms.
pub fn unsafe_rooms(source: &Source) -> Vec<Finding> {
    if UNSAFE_ROOMS.iter().any(|room| source.path.starts_with(room)) {
        return Vec::new();
    }
    source
        .words("unsafe")
        .map(|at| Finding {
            path: source.path.clone(),
            line: source.line_of(at),
            what: "unsafe outside its rooms".into(),
        })
        .collect()
}

/// A crate root that could forbid unsafe code and does not.
pub fn forbids_unsafe(source: &Source) -> Option<Finding> {
    let root = source.path.ends_with("/src/lib.rs") || source.path.ends_with("/src/main.rs");
    let folder = format!("crates/{}/", source.crate_name()?);
    let has_room = UNSAFE_ROOMS.iter().any(|room| room.starts_with(&folder));
    let forbids = source.code.contains("#![forbid(unsafe_code)]");
    (root && !has_room && !forbids).then(|| Finding {
        path: source.path.clone(),
        line: 1,
        what: "no #![forbid(unsafe_code)]".into(),
    })
}
