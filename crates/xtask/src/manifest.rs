//! Crates and what they depend on, as their manifests and `Cargo.lock` have it.

use std::{collections::BTreeMap, fs, io, path::Path};

/// A table of a manifest by its kind; tests and builds may use what they like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// `[dependencies]`, or such a table of certain targets.
    Everywhere,
    /// Dependencies of native targets alone: not there in a browser.
    Native,
}

/// One dependency of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// Name of the package.
    pub name: String,
    /// Line of the manifest, from 1.
    pub line: usize,
    /// Table that it stands in.
    pub table: Table,
}

impl Dependency {
    /// Folder below `crates/`, of a crate of this tree.
    pub fn folder(&self) -> Option<&str> {
        self.name.strip_prefix("ferrule-")
    }
}

/// Manifests of the crates below `top`, by folder.
pub fn crates(top: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(top.join("crates"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        found.insert(name, fs::read_to_string(entry.path().join("Cargo.toml"))?);
    }
    Ok(found)
}

/// Dependencies of a manifest without those of tests.
pub fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found = Vec::new();
    let mut table = None;
    for (i, line) in manifest.lines().enumerate() {
        if let Some(name) = line.trim().strip_prefix('[') {
            let name = name.trim_end_matches(']');
            let used = name.ends_with("dependencies") && !name.ends_with("dev-dependencies");
            let native = name.contains("not(target_arch = \"wasm32\")");
            table = used.then_some(if native { Table::Native } else { Table::Everywhere });
            continue;
        }
        let name = line.split(['.', '=', ' ']).next().unwrap_or_default().trim_matches('"');
        if let (Some(table), false) = (table, name.is_empty() || name.starts_with('#')) {
            found.push(Dependency { name: name.into(), line: i + 1, table });
        }
    }
    found
}

/// The packages of a lock file: name and version, and the same of what each depends on.
pub struct Lock(BTreeMap<String, Vec<String>>);

impl Lock {
    /// Reads `Cargo.lock`.
    pub fn new(text: &str) -> Self {
        let packages: Vec<(String, String, Vec<String>)> =
            text.split("[[package]]").skip(1).filter_map(package).collect();
        // A dependency bears its version only where there are several.
        let whole = |dependency: &String| {
            let mut known = packages.iter().filter(|(name, ..)| name == dependency);
            known
                .next()
                .map_or(dependency.clone(), |(name, version, _)| format!("{name} {version}"))
        };
        let packages = packages.iter().map(|(name, version, uses)| {
            (format!("{name} {version}"), uses.iter().map(whole).collect())
        });
        Self(packages.collect())
    }

    /// Each package that `names`, which `of` depends on, bring along, with the packages
    /// through which they do.
    pub fn closure(&self, of: &str, names: &[&str]) -> BTreeMap<String, Vec<String>> {
        let first = self.0.iter().find(|(package, _)| name_of(package) == of);
        let first = first.map_or(&[][..], |(_, uses)| uses);
        let mut waiting: Vec<Vec<String>> = first
            .iter()
            .filter(|package| names.contains(&name_of(package)))
            .map(|package| vec![package.clone()])
            .collect();
        let mut found = BTreeMap::new();
        while let Some(way) = waiting.pop() {
            let last = way[way.len() - 1].clone();
            if found.contains_key(&last) {
                continue;
            }
            for next in self.0.get(&last).into_iter().flatten() {
                waiting.push(way.iter().chain([next]).cloned().collect());
            }
            found.insert(last, way);
        }
        found
    }
}

/// The name of `name version`.
pub fn name_of(package: &str) -> &str {
    package.split(' ').next().unwrap_or_default()
}

fn package(text: &str) -> Option<(String, String, Vec<String>)> {
    let field = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        line.map(|value| value.trim_matches('"').to_owned())
    };
    let list = text.split_once("dependencies = [").map_or("", |(_, rest)| rest);
    let list = list.split(']').next().unwrap_or_default();
    let uses = list.lines().map(|line| line.trim().trim_matches([',', '"']).to_owned());
    Some((field("name")?, field("version")?, uses.filter(|name| !name.is_empty()).collect()))
}
