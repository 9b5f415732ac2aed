//! The whole file: its head, the chosen variant, and the order in which the
//! parts are read.

use super::error::{Files, TopologyError};
use super::nodes::{self, Named};
use super::section::{Problems, Section};
use super::{Topology, check, links, pseudowires, traffic};
use ferrule_base::Duration;
use ferrule_node::ConfigError;
use ferrule_node::config::Problem;
use toml::de::DeTable;

/// Run time of a topology that states none.
const RUNS_FOR: Duration = Duration::from_secs(2);

/// State shared by the functions that read entries.
pub(super) struct Reader<'f> {
    pub problems: Problems,
    pub files: &'f mut dyn Files,
    /// Errors in the files beside.
    pub beside: Vec<ConfigError>,
}

fn head<'i>(file: &str, text: &'i str) -> Result<Section<'i>, Box<TopologyError>> {
    let parsed = DeTable::parse(text).map_err(|e| {
        let problems = Problems(vec![Problem::syntax(&e)]);
        Box::new(TopologyError::of(file, text, problems, Vec::new()))
    })?;
    Ok(Section::new("topology", parsed))
}

pub(super) fn topology(
    file: &str,
    text: &str,
    files: &mut dyn Files,
    variant: Option<&str>,
) -> Result<Topology, Box<TopologyError>> {
    let mut top = head(file, text)?;
    let mut r = Reader { problems: Problems::default(), files, beside: Vec::new() };
    let read = read(&mut r, &mut top, variant);
    top.finish(&mut r.problems);
    if r.problems.0.is_empty() && r.beside.is_empty() {
        return Ok(read);
    }
    Err(Box::new(TopologyError::of(file, text, r.problems, r.beside)))
}

fn read(r: &mut Reader<'_>, top: &mut Section<'_>, wanted: Option<&str>) -> Topology {
    let p = &mut r.problems;
    let name = top.need(p, "name", "\"NAME\"").map(|t| t.into_inner()).unwrap_or_default();
    let about = top.text(p, "about").map(|t| t.into_inner()).unwrap_or_default();
    let runs_for = top.time(p, "for").unwrap_or(RUNS_FOR);
    let defaults = links::Defaults::read(r, top);
    let mut named = nodes::named(r, top);
    let variant = choose(r, top, wanted, &mut named);
    let (nodes, node_spans) = nodes::nodes(r, named.nodes, &defaults);
    let (hosts, host_spans) = nodes::hosts(r, named.hosts, &defaults);
    let mut topology = Topology {
        name,
        about,
        variant,
        runs_for,
        nodes,
        hosts,
        links: Vec::new(),
        traffic: Vec::new(),
        disturbances: Vec::new(),
    };
    links::links(r, top, &mut topology, &defaults);
    check::names(r, &topology, &host_spans);
    check::linked(r, &topology, &node_spans, &host_spans);
    pseudowires::check(r, &topology, &node_spans);
    traffic::traffic(r, top, &mut topology);
    traffic::disturbances(r, top, &mut topology);
    topology
}

/// The chosen variant's nodes and hosts stand in the place of those of the same
/// name; the others are read only so far that unknown keys show.
fn choose<'i>(
    r: &mut Reader<'_>,
    top: &mut Section<'i>,
    wanted: Option<&str>,
    named: &mut Named<'i>,
) -> Option<String> {
    let default = top.text(&mut r.problems, "default");
    let variants = top.named(&mut r.problems, "variant");
    let names: Vec<String> = variants.iter().map(|(name, _)| name.get_ref().clone()).collect();
    let refs: Vec<&str> = names.iter().map(String::as_str).collect();
    if let Some(default) = default.as_ref().filter(|d| !refs.contains(&d.get_ref().as_str())) {
        r.problems.unknown(default, "variant", &refs);
    }
    let chosen = wanted.map(str::to_owned).or(default.map(|t| t.into_inner()));
    if let Some(wanted) = wanted.filter(|wanted| !refs.contains(wanted)) {
        let text = toml::Spanned::new(0..0, wanted.to_owned());
        r.problems.unknown(&text, "variant", &refs);
    }
    for (name, mut section) in variants {
        section.text(&mut r.problems, "about");
        let own = nodes::named(r, &mut section);
        section.finish(&mut r.problems);
        if chosen.as_deref() == Some(name.get_ref()) {
            named.replace(own);
        }
    }
    chosen
}

pub(super) fn variants(
    file: &str,
    text: &str,
) -> Result<Vec<(String, String)>, Box<TopologyError>> {
    let mut top = head(file, text)?;
    let p = &mut Problems::default();
    let default = top.text(p, "default").map(|t| t.into_inner());
    let mut all = Vec::new();
    for (name, mut section) in top.named(p, "variant") {
        let about = section.text(p, "about").map(|t| t.into_inner()).unwrap_or_default();
        all.push((name.into_inner(), about));
    }
    all.sort_by_key(|(name, _)| Some(name) != default.as_ref());
    Ok(all)
}
