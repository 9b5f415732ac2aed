//! Writing configurations: a text that a person reads first and a parser second.
//!
//! The same functions write the nodes of the demo, so that what `init` hands out
//! is what has been seen to run.

use ferrule_node::config::RESERVE;
use std::borrow::Cow;
use std::fmt::{Display, Write};

/// A configuration that grows from the top.
#[derive(Default)]
pub struct Text {
    out: String,
}

impl Text {
    /// A paragraph of comment.
    pub fn comment(&mut self, lines: &str) -> &mut Self {
        for line in lines.lines() {
            let _ = writeln!(self.out, "{}", format!("# {line}").trim_end());
        }
        self
    }

    /// An empty line.
    pub fn gap(&mut self) -> &mut Self {
        self.out.push('\n');
        self
    }

    /// A table, `[node]`, or an entry of a list, `[[port]]`.
    pub fn table(&mut self, head: &str) -> &mut Self {
        let _ = writeln!(self.out, "{head}");
        self
    }

    /// A text value.
    pub fn text(&mut self, key: &str, value: impl Display) -> &mut Self {
        self.value(key, quoted(&value.to_string()), "")
    }

    /// A text value with a remark.
    pub fn text_why(&mut self, key: &str, value: impl Display, why: &str) -> &mut Self {
        self.value(key, quoted(&value.to_string()), why)
    }

    /// A number, a truth or a list.
    pub fn plain(&mut self, key: &str, value: impl Display) -> &mut Self {
        self.value(key, value.to_string(), "")
    }

    /// Writes a key and a value without quotes, with a remark.
    pub fn plain_why(&mut self, key: &str, value: impl Display, why: &str) -> &mut Self {
        self.value(key, value.to_string(), why)
    }

    fn value(&mut self, key: &str, value: String, why: &str) -> &mut Self {
        let line = format!("{key} = {value}");
        let _ = match why {
            "" => writeln!(self.out, "{line}"),
            why => writeln!(self.out, "{line:<34} # {why}"),
        };
        self
    }

    /// The finished text.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.out)
    }
}

/// A basic string of TOML.
fn quoted(value: &str) -> String {
    let mut out = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out + "\""
}

/// The head of every configuration.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// Its name.
    pub name: String,
    /// The folder of its counters, if it has static keys.
    pub state: Option<String>,
    /// The management socket.
    pub control: Option<String>,
}

impl NodePlan {
    pub fn write(&self, out: &mut Text) {
        out.gap().table("[node]").text("name", &self.name);
        if let Some(state) = &self.state {
            out.text_why("state", state, "counters of static keys: a restart never goes back");
            let why = "numbers set aside there at a time: a crash skips no more (256 and up)";
            out.plain_why("reserve", RESERVE.end(), why);
        }
        if let Some(control) = &self.control {
            out.text_why("control", control, "where `ferrule show`, `apply`, `capture` ask");
        }
    }
}

/// A port and what it stands on.
#[derive(Clone, Debug)]
pub struct PortPlan {
    /// Its name in the configuration.
    pub name: Cow<'static, str>,
    /// af-xdp, af-packet, tap or wire.
    pub driver: String,
    /// The device, if the driver has one.
    pub device: String,
    /// Its address; nothing: the device's.
    pub mac: Option<String>,
    /// Largest payload of a frame.
    pub mtu: usize,
}

impl PortPlan {
    pub fn write(&self, out: &mut Text, why: &str) {
        out.gap().table("[[port]]").text_why("name", &self.name, why);
        out.text("driver", &self.driver);
        if self.driver != "wire" {
            out.text("device", &self.device);
        }
        if let Some(mac) = &self.mac {
            out.text("mac", mac);
        }
        out.plain("mtu", self.mtu);
    }
}
