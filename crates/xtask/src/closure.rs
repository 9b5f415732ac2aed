//! Purity carried on: a crate that is pure depends on none that is not, however many there are
//! between, of this tree or of others.

use crate::{
    Finding,
    layers::{LAYERS, Layer, SYSTEM_CRATES},
    manifest::{self, Lock, Table, name_of},
};
use std::collections::BTreeMap;

/// Manifests of the crates by their folder.
pub type Manifests = BTreeMap<String, String>;

/// Pure crates that name one which is not: `(crate, dependency)`. The list only shrinks.
pub const EXCEPTIONS: &[(&str, &str)] = &[("lab", "engines"), ("studies", "engines")];

/// Packages that bring the operating system along and may, with the reason.
const HARMLESS: &[(&str, &str, &str)] =
    &[("cpufeatures", "libc", "asks the processor what it can do; on x86-64 without the system")];

/// Pure crates that name one which is not and are not among `exceptions`, and exceptions that
/// nothing needs.
pub fn crates(manifests: &Manifests, exceptions: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut wrong = Vec::new();
    for layer in LAYERS.iter().filter(|layer| layer.pure) {
        let manifest = manifests.get(layer.name).map_or("", String::as_str);
        for used in manifest::dependencies(manifest) {
            let Some(other) = used.folder().and_then(layer_of).filter(|l| !l.pure) else {
                continue;
            };
            wrong.push((layer.name, other.name));
            if !exceptions.contains(&(layer.name, other.name)) {
                let what = format!("{} is pure, {} is not", layer.name, other.name);
                findings.push(Finding { path: path(layer.name), line: used.line, what });
            }
        }
    }
    for &(name, used) in exceptions.iter().filter(|e| !wrong.contains(e)) {
        let what = format!("the exception for {used} is not needed: strike it");
        findings.push(Finding { path: path(name), line: 0, what });
    }
    findings
}

/// Packages of others that bring the operating system into a pure crate through others.
pub fn packages(manifests: &Manifests, lock: &Lock) -> Vec<Finding> {
    let mut findings = Vec::new();
    for layer in LAYERS.iter().filter(|layer| layer.pure) {
        let manifest = manifests.get(layer.name).map_or("", String::as_str);
        let used = manifest::dependencies(manifest);
        let names: Vec<&str> = used
            .iter()
            .filter(|d| d.table == Table::Everywhere && d.folder().is_none())
            .map(|d| d.name.as_str())
            .collect();
        for (package, way) in lock.closure(&format!("ferrule-{}", layer.name), &names) {
            let system = SYSTEM_CRATES.contains(&name_of(&package));
            if system && !harmless(&way) {
                let what = format!("brings the operating system along: {}", way.join(" -> "));
                findings.push(Finding { path: path(layer.name), line: 0, what });
            }
        }
    }
    findings
}

/// Pure crates that nothing impure stands below: those that are built for a browser.
pub fn without_system(manifests: &Manifests) -> Vec<&'static str> {
    LAYERS.iter().filter(|layer| pure_below(layer, manifests)).map(|layer| layer.name).collect()
}

fn pure_below(layer: &Layer, manifests: &Manifests) -> bool {
    let manifest = manifests.get(layer.name).map_or("", String::as_str);
    let used = manifest::dependencies(manifest);
    let mut below = used.iter().filter_map(|d| d.folder().and_then(layer_of));
    layer.pure && below.all(|other| pure_below(other, manifests))
}

fn harmless(way: &[String]) -> bool {
    way.windows(2).last().is_some_and(|pair| {
        let ends = (name_of(&pair[0]), name_of(&pair[1]));
        HARMLESS.iter().any(|&(by, package, _)| (by, package) == ends)
    })
}

fn layer_of(name: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| layer.name == name)
}

fn path(name: &str) -> String {
    format!("crates/{name}/Cargo.toml")
}
