//! Profiles as files. What is wrong is said with its place and a remedy, all of
//! it at once; an unknown key is wrong.

use super::{Distribution, KEYS, Key, Profile, Source};
use ferrule_base::nearest;
use ferrule_node::config::Problem;
use std::fmt::Write;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Keys of the file that are not numbers.
const WORDS: [&str; 7] =
    ["name", "about", "source", "origin", "free", "occupancy.distribution", "occupancy.scv"];

struct Reading {
    profile: Profile,
    problems: Vec<Problem>,
    distribution: Option<(String, Range<usize>)>,
    scv: Option<(f64, Range<usize>)>,
    free: Vec<Range<usize>>,
}

/// Reads a profile, or says everything that is wrong with it.
pub fn parse(text: &str) -> Result<Profile, Vec<Problem>> {
    let table = DeTable::parse(text).map_err(|e| {
        let remedy = "a profile is TOML: `key = value` lines below `[section]` lines".into();
        vec![Problem { span: e.span().unwrap_or(0..0), what: e.message().into(), remedy }]
    })?;
    let mut reading = Reading {
        profile: Profile { name: String::new(), ..Profile::ideal() },
        problems: Vec::new(),
        distribution: None,
        scv: None,
        free: Vec::new(),
    };
    reading.table("", table.get_ref());
    reading.check();
    reading.problems.sort_by_key(|p| p.span.start);
    if reading.problems.is_empty() { Ok(reading.profile) } else { Err(reading.problems) }
}

impl Reading {
    fn add(&mut self, span: Range<usize>, what: impl Into<String>, remedy: impl Into<String>) {
        self.problems.push(Problem { span, what: what.into(), remedy: remedy.into() });
    }

    fn table(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let path = match prefix {
                "" => key.get_ref().to_string(),
                _ => format!("{prefix}.{}", key.get_ref()),
            };
            let section = format!("{path}.");
            match value.get_ref() {
                DeValue::Table(inner) if names().any(|n| n.starts_with(&section)) => {
                    self.table(&path, inner);
                }
                _ => self.entry(&path, key.span(), value),
            }
        }
    }

    fn entry(&mut self, path: &str, key: Range<usize>, value: &Spanned<DeValue<'_>>) {
        if let Some(number) = Key::find(path) {
            return self.number(number, value);
        }
        match path {
            "name" => self.profile.name = self.text(path, value),
            "about" => self.profile.about = self.text(path, value),
            "origin" => self.profile.origin = self.text(path, value),
            "source" => self.source(value),
            "free" => self.free(value),
            "occupancy.distribution" => {
                self.distribution = Some((self.text(path, value), value.span()));
            }
            "occupancy.scv" => {
                let scv = float(value.get_ref()).filter(|v| (0.0001..=1000.0).contains(v));
                match scv {
                    Some(scv) => self.scv = Some((scv, value.span())),
                    None => self.add(value.span(), "scv is out of range", "give 0.0001 to 1000"),
                }
            }
            _ => {
                let remedy = match nearest(path, names()) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => format!("the keys are: {}", names().collect::<Vec<_>>().join(", ")),
                };
                self.add(key, format!("unknown key `{path}`"), remedy);
            }
        }
    }

    fn text(&mut self, path: &str, value: &Spanned<DeValue<'_>>) -> String {
        match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            _ => {
                self.add(value.span(), format!("`{path}` is a text"), "put it in quotes");
                String::new()
            }
        }
    }

    fn source(&mut self, value: &Spanned<DeValue<'_>>) {
        let text = self.text("source", value);
        let all = [Source::Ideal, Source::Fitted, Source::Calibrated];
        match all.iter().find(|s| s.name() == text) {
            Some(&source) => self.profile.source = source,
            None => self.add(
                value.span(),
                format!("`{text}` is no source of numbers"),
                "write ideal, fitted or calibrated",
            ),
        }
    }

    fn free(&mut self, value: &Spanned<DeValue<'_>>) {
        let DeValue::Array(keys) = value.get_ref() else {
            let remedy = "write free = [\"occupancy.packet-ns\"]";
            return self.add(value.span(), "`free` is a list of keys", remedy);
        };
        for key in keys {
            let path = self.text("free", key);
            if Key::find(&path).is_none() && path != "occupancy.scv" {
                let remedy = match nearest(&path, names()) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => "name a number of the profile, with its section".into(),
                };
                self.add(key.span(), format!("`{path}` is no number of a profile"), remedy);
            }
            self.free.push(key.span());
            self.profile.free.push(path);
        }
    }

    fn number(&mut self, key: &Key, value: &Spanned<DeValue<'_>>) {
        let Some(number) = float(value.get_ref()) else {
            let what = format!("`{}` is a number", key.path);
            let remedy = format!("without a unit: it is in {}", key.unit);
            return self.add(value.span(), what, remedy);
        };
        let (least, most) = key.range;
        if !(least..=most).contains(&number) {
            let what = format!("`{}` is out of range", key.path);
            let remedy = format!("{least} to {most} {}", key.unit);
            return self.add(value.span(), what, remedy);
        }
        if key.whole && number.fract() != 0.0 {
            let what = format!("`{}` counts {}", key.path, key.unit);
            return self.add(value.span(), what, "give a whole number");
        }
        (key.set)(&mut self.profile, number);
    }

    /// Checks keys against one another.
    fn check(&mut self) {
        if self.profile.name.is_empty() {
            self.add(0..0, "the profile has no name", "write name = \"…\" at the top");
        }
        match (self.distribution.take(), self.scv.take()) {
            (None, None) => {}
            (Some((word, _)), None) if word == "fixed" => {}
            (Some((word, _)), None) if word == "exponential" => {
                self.profile.distribution = Distribution::Exponential;
            }
            (Some((word, _)), Some((scv, _))) if word == "gamma" => {
                self.profile.distribution = Distribution::Gamma(scv);
            }
            (Some((word, at)), None) if word == "gamma" => {
                self.add(at, "gamma needs to know how wide it is", "add scv = 0.5 below it");
            }
            (Some((word, _)), Some((_, at))) if word == "fixed" || word == "exponential" => {
                let what = format!("{word} has a width of its own");
                self.add(at, what, "leave `scv` out, or choose gamma");
            }
            (None, Some((_, at))) => {
                self.add(at, "`scv` without a distribution", "add distribution = \"gamma\"");
            }
            (Some((word, at)), _) => {
                let what = format!("`{word}` is no distribution");
                self.add(at, what, "write fixed, exponential or gamma");
            }
        }
        self.check_source();
    }

    fn check_source(&mut self) {
        let (source, free) = (self.profile.source, self.profile.free.len());
        let points = self.profile.fit.points;
        let at = self.free.first().cloned().unwrap_or(0..0);
        match source {
            Source::Ideal if free > 0 => {
                self.add(
                    at,
                    "an ideal profile has no free parameters",
                    "write source = \"fitted\"",
                );
            }
            Source::Fitted if free == 0 => {
                self.add(0..0, "a fitted profile says what was fitted", "add free = [\"…\"]");
            }
            Source::Fitted if free >= points => {
                let what = format!("{free} free parameters for {points} published values");
                self.add(at, what, "fit fewer parameters than there are values: fit.points");
            }
            _ => {}
        }
        if source != Source::Ideal && self.profile.origin.is_empty() {
            let what = format!("a {} profile says where it comes from", source.name());
            self.add(0..0, what, "add origin = \"the machine, or the publication\"");
        }
    }
}

fn float(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Float(v) => v.as_str().replace('_', "").parse().ok(),
        DeValue::Integer(v) if v.radix() == 10 => v.as_str().replace('_', "").parse().ok(),
        _ => None,
    }
    .filter(|v: &f64| v.is_finite())
}

fn names() -> impl Iterator<Item = &'static str> {
    WORDS.into_iter().chain(KEYS.iter().map(|k| k.path))
}

/// The file of a profile: everything that is not as in the ideal one.
pub fn write(profile: &Profile) -> String {
    let ideal = Profile::ideal();
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let mut file = format!("name = {}\n", quoted(&profile.name));
    let mut line = |text: String| {
        file.push_str(&text);
        file.push('\n');
    };
    line(format!("about = {}", quoted(&profile.about)));
    line(format!("source = {}", quoted(profile.source.name())));
    if !profile.origin.is_empty() {
        line(format!("origin = {}", quoted(&profile.origin)));
    }
    if !profile.free.is_empty() {
        line(format!("free = {}", toml::Value::from(profile.free.clone())));
    }
    let mut section = "";
    for key in KEYS {
        let value = (key.get)(profile);
        if value == (key.get)(&ideal) {
            continue;
        }
        if section != key.section() {
            section = key.section();
            let _ = write!(file, "\n[{section}]\n");
        }
        let _ = writeln!(file, "{} = {value} # {}: {}", key.name(), key.unit, key.about);
    }
    let words = match profile.distribution {
        Distribution::Fixed => return file,
        Distribution::Exponential => "distribution = \"exponential\"\n".to_owned(),
        Distribution::Gamma(scv) => format!("distribution = \"gamma\"\nscv = {scv}\n"),
    };
    match file.find("\n[occupancy]\n") {
        Some(at) => file.insert_str(at + "\n[occupancy]\n".len(), &words),
        None => {
            let _ = write!(file, "\n[occupancy]\n{words}");
        }
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Fit, Price};

    fn problems(text: &str) -> String {
        Profile::parse("p.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn device_profile_files_read_back_as_they_were_written() {
        let full = Profile {
            name: "slow \"gateway\"".into(),
            about: "a test".into(),
            source: Source::Fitted,
            origin: "nobody".into(),
            free: vec!["occupancy.sealed.octet-ns".into(), "occupancy.scv".into()],
            plain: Price { packet_ns: 100.0, octet_ns: 0.25 },
            sealed: Price { packet_ns: 2000.0, octet_ns: 11.125 },
            distribution: Distribution::Gamma(0.75),
            batch: 16,
            timer: std::time::Duration::from_micros(30),
            queue: 64,
            fit: Fit { points: 4, error_percent: 1.5, leave_one_out_percent: 3.0 },
            ..Profile::ideal()
        };
        let others = [
            Profile::ideal(),
            Profile { distribution: Distribution::Exponential, ..Profile::ideal() },
        ];
        // Every number is there: no section of the file stands twice.
        let mut all = Profile { name: "all".into(), ..Profile::ideal() };
        KEYS.iter().for_each(|key| (key.set)(&mut all, key.range.1.min(key.range.0 + 3.0)));
        for profile in others.into_iter().chain([full, all]) {
            let text = profile.to_toml();
            assert_eq!(Profile::parse("p.toml", &text), Ok(profile), "{text}");
        }
    }

    #[test]
    fn every_number_of_a_profile_is_read_from_its_own_place() {
        for key in KEYS {
            let value = key.range.1.min(key.range.0 + 3.0);
            let text = format!("name = \"x\"\n[{}]\n{} = {value}\n", key.section(), key.name());
            let profile = Profile::parse("p.toml", &text).unwrap();
            assert_eq!((key.get)(&profile), value, "{}", key.path);
            let others = KEYS.iter().filter(|k| k.path != key.path);
            let ideal = Profile::ideal();
            assert!(others.into_iter().all(|k| (k.get)(&profile) == (k.get)(&ideal)));
        }
    }

    #[test]
    fn a_wrong_device_profile_is_refused_with_place_and_remedy() {
        let text = "name = \"x\"\n[occupancy]\npacket-nss = 3\nlookup-ns = \"fast\"\n[batch]\nsize = 129\n[queue]\nframes = 1.5\n[tea]\n";
        assert_eq!(
            problems(text),
            "p.toml:5:1: unknown key `occupancy.packet-nss`\n  did you mean `occupancy.packet-ns`?"
                .replace(":5:", ":3:")
                + "\np.toml:4:13: `occupancy.lookup-ns` is a number\n  without a unit: it is in ns"
                + "\np.toml:6:8: `batch.size` is out of range\n  1 to 128 frames"
                + "\np.toml:8:10: `queue.frames` counts frames\n  give a whole number"
                + "\np.toml:9:2: unknown key `tea`\n  the keys are: "
                + &names().collect::<Vec<_>>().join(", ")
        );
        assert!(problems("about = \"x\"").contains("has no name"));
        assert!(problems("name = \"x\"\nsource = \"guessed\"").contains("write ideal, fitted or"));
        assert!(problems("name = ").starts_with("p.toml:1:"));
    }

    #[test]
    fn a_fitted_profile_has_fewer_free_parameters_than_points_and_says_where_it_is_from() {
        let file = |free: &str, points: u32, rest: &str| {
            format!(
                "name = \"x\"\nsource = \"fitted\"\nfree = [{free}]\n{rest}[fit]\npoints = {points}\n"
            )
        };
        let both = "\"pipeline.latency-ns\", \"occupancy.packet-ns\"";
        assert!(problems(&file(both, 2, "origin = \"t\"\n")).contains("2 free parameters for 2"));
        assert!(problems(&file("", 2, "origin = \"t\"\n")).contains("says what was fitted"));
        assert!(problems(&file(both, 3, "")).contains("says where it comes from"));
        assert!(problems(&file("\"batch\"", 3, "origin = \"t\"\n")).contains("is no number of"));
        assert!(Profile::parse("p", &file(both, 3, "origin = \"t\"\n")).is_ok());
    }

    #[test]
    fn shipped_profiles_are_right_and_ideal_is_the_ideal_one() {
        for name in Profile::names() {
            assert_eq!(Profile::named(name).map(|p| p.name).as_deref(), Some(name));
        }
        assert_eq!(Profile::named("ideal"), Some(Profile::ideal()));
        assert_eq!(Profile::named("nobody"), None);
    }
}
