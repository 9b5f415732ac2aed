//! Commands that the page may give.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Octets of a name in a command at most.
const NAME_MAX: usize = 200;
/// The longest delay that a link may get: a minute.
const DELAY_NS_MAX: u64 = 60_000_000_000;
/// The slowest and the fastest that time may be asked to pass.
const SPEEDS: std::ops::RangeInclusive<f64> = 1e-6..=1e4;

/// One command. JSON: `{"command": "step", "by": "event"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Virtual time stops.
    Pause {},
    /// Virtual time goes on.
    Resume {},
    /// Goes on by a little, and stops again.
    Step {
        /// Length of the step.
        by: Step,
    },
    /// How fast virtual time is to pass.
    Speed {
        /// The pace.
        pace: Pace,
    },
    /// Disturbs a link, or lets it be again. What is left out stays as it is.
    Link {
        /// Its name in the state.
        link: String,
        /// Frames can pass.
        #[serde(default)]
        up: Option<bool>,
        /// The share of frames that is lost, 0 to 1, both ways.
        #[serde(default)]
        loss: Option<f64>,
        /// How long a frame is on its way, in nanoseconds.
        #[serde(default)]
        delay_ns: Option<u64>,
    },
    /// A node ends as after `kill -9` and starts anew.
    Restart {
        /// Its name in the state.
        node: String,
    },
}

/// Length of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// To the next event, and through it.
    Event,
    /// A millisecond of virtual time.
    Millisecond,
}

/// Speed of virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Virtual seconds in a real one.
    Times(f64),
    /// As fast as the machine can.
    Unbounded,
}

/// Reason for which a command was not carried out, as a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Command {
    /// Understands a request's body: nothing else gets further in.
    pub fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let command: Self = serde_json::from_slice(body).map_err(|e| Refusal(e.to_string()))?;
        let refuse = |what: &str| Err(Refusal(what.into()));
        match &command {
            Self::Link { link: name, .. } | Self::Restart { node: name }
                if name.len() > NAME_MAX =>
            {
                refuse("a name of more than 200 octets")
            }
            Self::Link { loss: Some(loss), .. } if !(0.0..=1.0).contains(loss) => {
                refuse("loss is a share: 0 to 1")
            }
            Self::Link { delay_ns: Some(delay), .. } if *delay > DELAY_NS_MAX => {
                refuse("a delay of more than a minute")
            }
            Self::Link { up: None, loss: None, delay_ns: None, .. } => {
                refuse("nothing to change: say up, loss or delay_ns")
            }
            Self::Speed { pace: Pace::Times(times) } if !SPEEDS.contains(times) => {
                refuse("a speed is 0.000001 to 10000 virtual seconds in a second")
            }
            _ => Ok(command),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashboard_commands_are_understood_or_refused_with_a_reason() {
        let step = Command::parse(br#"{"command":"step","by":"millisecond"}"#);
        assert_eq!(step, Ok(Command::Step { by: Step::Millisecond }));
        let speed = Command::parse(br#"{"command":"speed","pace":{"times":0.5}}"#);
        assert_eq!(speed, Ok(Command::Speed { pace: Pace::Times(0.5) }));
        let down = Command::parse(br#"{"command":"link","link":"a-b","up":false}"#).unwrap();
        let Command::Link { link, up: Some(false), loss: None, delay_ns: None } = down else {
            panic!("{down:?}")
        };
        assert_eq!(link, "a-b");
        for (bad, word) in [
            (r#"{"command":"format","disk":"all"}"#, "unknown variant"),
            (r#"{"command":"pause","more":1}"#, "unknown field"),
            (r#"{"command":"link","link":"a-b"}"#, "nothing to change"),
            (r#"{"command":"link","link":"a-b","loss":1.5}"#, "share"),
            (r#"{"command":"link","link":"a-b","loss":-0.1}"#, "share"),
            (r#"{"command":"link","link":"a-b","delay_ns":60000000001}"#, "minute"),
            (r#"{"command":"speed","pace":{"times":0}}"#, "speed"),
            (r#"{"command":"speed","pace":{"times":1e400}}"#, "number out of range"),
            ("{", "EOF"),
        ] {
            let refusal = Command::parse(bad.as_bytes()).unwrap_err();
            assert!(refusal.0.contains(word), "{bad}: {refusal}");
        }
        let long = format!(r#"{{"command":"restart","node":"{}"}}"#, "x".repeat(201));
        assert!(Command::parse(long.as_bytes()).is_err());
    }
}
