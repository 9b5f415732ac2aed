//! The crates and their arrows as a picture in text, drawn from the manifests.
//!
//! Each crate is a row, and each comes below all that use it. A crate's own line goes to the
//! right; the line of those that use it comes down on the last letter of its name.

use crate::{layers::LAYERS, manifest};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

/// Where the picture stands, and the lines around it.
pub const PAGE: &str = "ARCHITECTURE.md";
const BEGINS: &str = "<!-- drawn by `cargo run -q -p xtask -- draw` -->\n```text\n";
const ENDS: &str = "```\n<!-- end of the drawing -->\n";
/// Columns from one crate to the next.
const STEP: usize = 3;
/// Columns of a line of prose.
const LINE: usize = 90;

/// A crate in the picture.
pub struct Room {
    /// Folder below `crates/`.
    pub name: String,
    /// First sentence of its root's documentation.
    pub purpose: String,
    /// Crates of this tree that it depends on.
    pub uses: BTreeSet<String>,
}

impl Room {
    /// A crate by its manifest and the source of its root.
    pub fn new(name: &str, manifest: &str, root: &str) -> Self {
        let used = manifest::dependencies(manifest);
        let uses = used.iter().filter_map(|d| d.folder().map(str::to_owned)).collect();
        let words = root.lines().take_while(|line| line.starts_with("//! "));
        let words = words.map(|line| &line[4..]).collect::<Vec<_>>().join(" ");
        let purpose = words.split_once(". ").map_or(words.as_str(), |(first, _)| first);
        let purpose = purpose.trim_end_matches('.').to_owned();
        Self { name: name.into(), purpose, uses }
    }
}

/// Crates of the tree at `top` that an arrow ties to another.
pub fn rooms(top: &Path) -> io::Result<Vec<Room>> {
    let mut rooms = Vec::new();
    for (name, manifest) in manifest::crates(top)? {
        let source = top.join("crates").join(&name).join("src");
        let root = fs::read_to_string(source.join("lib.rs"))
            .or_else(|_| fs::read_to_string(source.join("main.rs")))?;
        rooms.push(Room::new(&name, &manifest, &root));
    }
    let used: BTreeSet<String> = rooms.iter().flat_map(|room| room.uses.clone()).collect();
    rooms.retain(|room| used.contains(&room.name) || !room.uses.is_empty());
    Ok(rooms)
}

/// The picture.
pub fn draw(rooms: &[Room]) -> String {
    let order = order(rooms);
    let margin = order.iter().enumerate().map(|(i, r)| r.name.len().saturating_sub(i * STEP));
    let margin = margin.max().unwrap_or_default();
    let reach = reach(rooms);
    let mut text = String::new();
    for (row, room) in order.iter().enumerate() {
        let corner = margin + row * STEP;
        let mut line = vec![' '; corner - room.name.len()];
        line.extend(room.name.chars());
        let last = order.iter().rposition(|other| room.uses.contains(&other.name));
        for (i, other) in order.iter().enumerate().skip(row + 1) {
            let implied =
                room.uses.iter().any(|via| reach[via.as_str()].contains(other.name.as_str()));
            let passes = order[..row].iter().any(|above| above.uses.contains(&other.name));
            let dash = if last.is_some_and(|last| i <= last) { '─' } else { ' ' };
            let knot = match (room.uses.contains(&other.name), passes) {
                (true, _) if implied => '○',
                (true, _) => '●',
                (false, true) => '│',
                (false, false) => dash,
            };
            line.extend([dash; STEP - 1]);
            line.push(knot);
        }
        text.push_str(line.iter().collect::<String>().trim_end());
        text.push('\n');
    }
    text
}

/// The purpose of each crate, in the picture's order; a star at those that are not pure.
pub fn purposes(rooms: &[Room]) -> String {
    let width = rooms.iter().map(|room| room.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for room in order(rooms) {
        let pure = LAYERS.iter().any(|layer| layer.name == room.name && layer.pure);
        let star = if pure { ' ' } else { '*' };
        let mut line = format!("{:<width$} {star} ", room.name);
        for word in room.purpose.split(' ') {
            if line.chars().count() + word.chars().count() > LINE {
                text.push_str(line.trim_end());
                line = format!("\n{:width$}   ", "");
            }
            line.push_str(word);
            line.push(' ');
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The page with the picture of today in it; nothing where the page has no place for one.
pub fn redraw(page: &str, rooms: &[Room]) -> Option<String> {
    let (before, rest) = page.split_once(BEGINS)?;
    let (_, after) = rest.split_once(ENDS)?;
    let (picture, purposes) = (draw(rooms), purposes(rooms));
    Some(format!("{before}{BEGINS}{picture}\n{purposes}{ENDS}{after}"))
}

/// Draws the picture of the page of the tree at `top` anew.
pub fn rewrite(top: &Path) -> io::Result<()> {
    let page = top.join(PAGE);
    let drawn = redraw(&fs::read_to_string(&page)?, &rooms(top)?);
    let missing = || io::Error::other(format!("{PAGE} has no place for the drawing"));
    fs::write(page, drawn.ok_or_else(missing)?)
}

/// Crates from the top down: by floor, then by how many they use.
fn order(rooms: &[Room]) -> Vec<&Room> {
    let reach = reach(rooms);
    let mut order: Vec<&Room> = rooms.iter().collect();
    let floor = |room: &Room| floor(room, rooms);
    order.sort_by_key(|r| {
        (usize::MAX - floor(r), usize::MAX - reach[r.name.as_str()].len(), &r.name)
    });
    order
}

/// The longest way down from a crate.
fn floor(room: &Room, rooms: &[Room]) -> usize {
    let below = rooms.iter().filter(|other| room.uses.contains(&other.name));
    below.map(|other| 1 + floor(other, rooms)).max().unwrap_or_default()
}

/// Everything below each crate.
fn reach(rooms: &[Room]) -> BTreeMap<&str, BTreeSet<&str>> {
    rooms.iter().map(|room| (room.name.as_str(), below(room, rooms))).collect()
}

fn below<'a>(room: &'a Room, rooms: &'a [Room]) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut waiting = vec![room];
    while let Some(here) = waiting.pop() {
        for other in rooms.iter().filter(|other| here.uses.contains(&other.name)) {
            if seen.insert(other.name.as_str()) {
                waiting.push(other);
            }
        }
    }
    seen
}
