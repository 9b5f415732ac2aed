//! Where reports go: a page or a folder of pages with an index, and data to plot again.

use crate::results::{Failed, Files, save};
use ferrule_report::{Report, html};
use ferrule_studies::inventory;
use std::fs;
use std::path::{Path, PathBuf};

/// The index of all pages of a folder.
const INDEX: &str = "index.html";
/// Its title.
const TITLE: &str = "Published studies, reproduced";

/// Files that were asked for, and the reports that they are of so far.
pub struct Written {
    /// A page; of several studies the folder of their pages.
    report: Option<PathBuf>,
    /// Pages, data and drawings.
    out: Option<PathBuf>,
    several: bool,
    reports: Vec<(&'static str, Report)>,
}

impl Written {
    /// Nothing yet.
    pub fn to(report: Option<PathBuf>, out: Option<PathBuf>, several: bool) -> Self {
        Self { report, out, several, reports: Vec::new() }
    }

    /// One more report: its files, and the index anew, so that it names what there is
    /// whenever somebody stops. The pages that there are now.
    pub fn add(&mut self, name: &'static str, report: &Report) -> Result<Vec<PathBuf>, Failed> {
        self.reports.push((name, report.clone()));
        if !self.several {
            let files =
                Files { report: self.report.as_deref(), folder: self.out.as_deref(), index: None };
            let pages = files.write(report)?;
            if let Some(folder) = &self.out {
                data(folder, name, report)?;
            }
            return Ok(pages);
        }
        let mut pages = Vec::new();
        if let Some(folder) = &self.report {
            made(folder)?;
            let page = folder.join(format!("{name}.html"));
            pages.extend(
                Files { report: Some(&page), folder: None, index: Some(INDEX) }.write(report)?,
            );
            pages.push(self.index(folder, |name| format!("{name}.html"))?);
        }
        if let Some(folder) = &self.out {
            let own = folder.join(name);
            let index = format!("../{INDEX}");
            pages.extend(
                Files { report: None, folder: Some(&own), index: Some(&index) }.write(report)?,
            );
            data(&own, name, report)?;
            pages.push(self.index(folder, |name| format!("{name}/report.html"))?);
        }
        Ok(pages)
    }

    /// The index of all reports so far; its path.
    fn index(&self, folder: &Path, address: fn(&str) -> String) -> Result<PathBuf, Failed> {
        let files: Vec<String> = self.reports.iter().map(|(name, _)| address(name)).collect();
        let entries = self.reports.iter().zip(&files);
        let entries: Vec<_> =
            entries.map(|((_, report), file)| html::Entry { file, report }).collect();
        let path = folder.join(INDEX);
        save(&path, &html::index(TITLE, &entries))?;
        Ok(path)
    }
}

fn made(folder: &Path) -> Result<(), Failed> {
    fs::create_dir_all(folder).map_err(|error| (folder.to_owned(), error))
}

/// Beside tables and figures: what was printed and went into fits, what came out of them,
/// and a list of all files.
fn data(folder: &Path, name: &str, report: &Report) -> Result<(), Failed> {
    let fit = folder.join("fit");
    made(&fit)?;
    save(&fit.join("printed.toml"), inventory::text(name).unwrap_or_default())?;
    for (file, text) in inventory::profiles(name) {
        save(&fit.join(file), text)?;
    }
    let line = |file: String, what: &str| format!("{file:<40} {what}\n");
    let tables = report.tables().map(|table| line(format!("{}.csv", table.id), &table.title));
    let figures = report.figures().flat_map(|figure| {
        let points = line(format!("{}.points.csv", figure.id), &figure.title);
        [points, line(format!("{}.svg", figure.id), &figure.title)]
    });
    let fits = inventory::profiles(name).iter();
    let fits = fits.map(|(file, _)| line(format!("fit/{file}"), "what models cost, as fitted"));
    let rest = [
        line("report.html".into(), "the page"),
        line("report.json".into(), "all of it (ferrule-report/1)"),
        line("environment.json".into(), "where and how it was made"),
        line("fit/printed.toml".into(), "the printed values: what is fitted to, and claims"),
    ];
    let all = rest.into_iter().chain(fits).chain(tables).chain(figures).collect::<String>();
    let citations = report.citations.join("\n");
    save(&folder.join("FILES.txt"), &format!("{}\n\n{all}\nTo cite:\n{citations}\n", report.title))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_report::{Axis, Circumstance, Figure, Model, Section, Series, Shape};
    use ferrule_studies::{acl_mpls, toe_ipsec};

    fn report(title: &str) -> Report {
        let series = Series::new("software", Shape::Line, [(1.0, Model::from(2.0))]);
        let axes = [Axis::new("speed", ""), Axis::new("throughput", "")];
        let mut report = Report::new(title, "what?");
        report.lead = "f".into();
        report.circumstances = vec![Circumstance { name: "clock".into(), value: "tsc".into() }];
        report.sections =
            vec![Section::new("s").figure(Figure::xy("f", "a figure", axes, vec![series]))];
        report
    }

    #[test]
    fn folder_of_all_has_an_index_of_what_there_is_so_far() {
        let folder = fresh();
        let mut written = Written::to(Some(folder.join("pages")), Some(folder.join("data")), true);
        written.add(toe_ipsec::NAME, &report("one <study>")).expect("files");
        let index = fs::read_to_string(folder.join("pages/index.html")).expect("an index");
        assert!(index.contains("href=\"toe-ipsec.html\"") && !index.contains("acl-mpls"));
        written.add(acl_mpls::NAME, &report("another")).expect("files");
        let index = fs::read_to_string(folder.join("pages/index.html")).expect("an index");
        assert!(index.contains("href=\"acl-mpls.html\"") && index.contains("one &lt;study&gt;"));
        let page = fs::read_to_string(folder.join("pages/acl-mpls.html")).expect("a page");
        assert!(page.contains("href=\"index.html\""));
        let data = fs::read_to_string(folder.join("data/index.html")).expect("an index");
        assert!(data.contains("href=\"acl-mpls/report.html\""));
        let page = fs::read_to_string(folder.join("data/acl-mpls/report.html")).expect("a page");
        assert!(page.contains("href=\"../index.html\""));
        fs::remove_dir_all(folder).expect("a folder of our own");
    }

    #[test]
    fn data_of_a_study_has_points_fit_and_environment_and_names_them_all() {
        let folder = fresh();
        let mut written = Written::to(None, Some(folder.clone()), false);
        written.add(toe_ipsec::NAME, &report("one")).expect("files");
        let read = |name: &str| fs::read_to_string(folder.join(name)).expect(name);
        assert!(read("f.points.csv").contains("software,model,1,2,,"));
        assert!(read("fit/printed.toml").contains("[[inventory]]"));
        assert!(read("fit/toe-software.toml").contains("free"));
        assert!(read("environment.json").contains("\"clock\": \"tsc\""));
        let files = read("FILES.txt");
        for line in fs::read_dir(&folder).expect("a folder") {
            let name = line.expect("a file").file_name().to_string_lossy().into_owned();
            assert!(name == "FILES.txt" || files.contains(&name), "{name} of {files}");
        }
        fs::remove_dir_all(folder).expect("a folder of our own");
    }

    /// A folder that nobody else has.
    fn fresh() -> PathBuf {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ferrule-written-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }
}
