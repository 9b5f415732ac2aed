//! What the two ends of a pseudowire have to have alike.
//!
//! Nobody signals a static pseudowire, so nobody refuses one whose ends differ, as RFC 4447
//! has it: whoever has the configurations of both nodes does that here.

use super::{Config, PseudowireConfig};

/// What an end has, in words.
type Has = fn(&Config, &PseudowireConfig) -> String;

impl Config {
    /// Pseudowires of another node that could be the other end of this node's: each expects
    /// the label that the other sends.
    pub fn far_ends<'a>(
        &'a self,
        pw: &'a PseudowireConfig,
        other: &'a Self,
    ) -> impl Iterator<Item = &'a PseudowireConfig> {
        let labels = (pw.label_out, pw.label_in);
        other.pseudowires.iter().filter(move |far| (far.label_in, far.label_out) == labels)
    }

    /// Why a pseudowire cannot have this other end, of another node; with what each of the two
    /// has.
    pub fn disagreement(
        &self,
        pw: &PseudowireConfig,
        other: &Self,
        far: &PseudowireConfig,
    ) -> Option<(&'static str, [String; 2])> {
        let ends = [(self, pw), (other, far)];
        let differ = |what: Has| {
            let both = ends.map(|(config, pw)| what(config, pw));
            (both[0] != both[1]).then_some(both)
        };
        let word = |_: &Self, pw: &PseudowireConfig| match pw.control_word {
            true => "with a control word".to_owned(),
            false => "without a control word".to_owned(),
        };
        let mode = |_: &Self, pw: &PseudowireConfig| match pw.tagged_mode {
            Some(_) => "in tagged mode".to_owned(),
            None => "in raw mode".to_owned(),
        };
        let mtu = |config: &Self, pw: &PseudowireConfig| {
            format!("with mtu = {} at its port", config.ports[pw.port].mtu)
        };
        let rules: [(_, Has); 3] = [
            ("set control-word alike (RFC 4385 section 2)", word),
            ("set mode alike (RFC 4448 section 4.4)", mode),
            ("give the ports of both circuits one mtu (RFC 4447 section 5.5)", mtu),
        ];
        rules.into_iter().find_map(|(rule, what)| Some((rule, differ(what)?)))
    }
}
