//! Reports where the user wants them: printed, as a page, as a folder of files.

use crate::output::print;
use crate::paint::Paint;
use ferrule_daemon::Fault;
use ferrule_report::{Report, csv, html, json, svg, terminal};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Files that were asked for.
#[derive(Clone, Copy, Default)]
pub struct Files<'a> {
    /// One page.
    pub report: Option<&'a Path>,
    /// Page, JSON, tables and figures.
    pub folder: Option<&'a Path>,
    /// The address of the index of several reports, as seen from a page.
    pub index: Option<&'a str>,
}

/// File that could not be written, and the error.
pub type Failed = (PathBuf, io::Error);

impl Files<'_> {
    /// Writes them; the pages that there are now.
    pub fn write(self, report: &Report) -> Result<Vec<PathBuf>, Failed> {
        let mut written = Vec::new();
        if let Some(path) = self.report {
            save(path, &html::render_beside(report, self.index))?;
            written.push(path.to_owned());
        }
        if let Some(folder) = self.folder {
            written.push(write_all(report, folder, self.index)?);
        }
        Ok(written)
    }

    /// Writes them, and prints the report: as JSON, or for people with where the pages are.
    pub fn give(self, report: &Report, as_json: bool) -> Result<(), Fault> {
        let written = self.write(report).map_err(|(path, e)| {
            let what = format!("{} cannot be written: {e}", path.display());
            Fault::environment(what, "choose another file or folder")
        })?;
        let stdout = &mut io::stdout();
        let text = if as_json {
            json::render(report)
        } else {
            let mut text = terminal::render(report, Paint::for_stream(stdout).terminal());
            for path in written {
                text += &format!("\nreport: {}\n", path.display());
            }
            text
        };
        print(&text);
        Ok(())
    }
}

pub fn save(path: &Path, text: &str) -> Result<(), Failed> {
    fs::write(path, text).map_err(|error| (path.to_owned(), error))
}

/// Circumstances of a report, by name.
fn environment(report: &Report) -> String {
    let facts = report.facts().map(|(name, value)| (name.to_owned(), value.into()));
    let facts: serde_json::Map<String, serde_json::Value> = facts.collect();
    format!("{:#}\n", serde_json::Value::from(facts))
}

/// Writes every rendering; returns the page's path.
fn write_all(report: &Report, folder: &Path, index: Option<&str>) -> Result<PathBuf, Failed> {
    fs::create_dir_all(folder).map_err(|error| (folder.to_owned(), error))?;
    for table in report.tables() {
        save(&folder.join(format!("{}.csv", table.id)), &csv::render(report, table))?;
    }
    let hues = svg::Hues::of(report.figures());
    for figure in report.figures() {
        let points = folder.join(format!("{}.points.csv", figure.id));
        save(&points, &csv::figure(report, figure))?;
        let drawing = svg::render_among(figure, &hues);
        save(&folder.join(format!("{}.svg", figure.id)), &drawing)?;
    }
    save(&folder.join("report.json"), &json::render(report))?;
    save(&folder.join("environment.json"), &environment(report))?;
    let page = folder.join("report.html");
    save(&page, &html::render_beside(report, index))?;
    Ok(page)
}
