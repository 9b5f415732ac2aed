//! A verdict on every claim.

use super::live::Live;
use super::model::{Model, slope};
use super::network::System;
use super::overhead::{CORE_LINKS, modelled, published};
use super::published::Study;
use crate::words::{self, ends, why_not};
use ferrule_report::{Claim, Evidence, Kind, Measure, Threshold};

/// Printed and modelled delays are the same within this: the bound of the fits.
pub const WITHIN_PERCENT: f64 = 5.0;
/// Above this load table 2 has losses, in Mbit/s.
const LOSSY_MBPS: f64 = 100.0;

/// Sources of the evidence for the claims.
struct Given<'a> {
    study: &'a Study,
    model: &'a Model,
    live: &'a Result<Live, String>,
}

/// Judges each of the study's claims, in the study's order.
pub fn judge(study: &Study, model: &Model, live: &Result<Live, String>) -> Vec<Claim> {
    let given = Given { study, model, live };
    let claims = study.claim.iter().map(|said| match said.id.as_str() {
        "overhead-exact" => given.overhead(said),
        "hop-delay" => given.hop_delay(said),
        "load-flat" => given.load_flat(said),
        "six-times" => given.six_times(said),
        "ten-times-bandwidth" => given.ten_times(said),
        _ => {
            let why = "the handoff part of this study comes later";
            said.open().not_run(Kind::Model, why).not_run(Kind::Live, why)
        }
    });
    claims.collect()
}

impl Given<'_> {
    fn not_live(&self, claim: Claim) -> Claim {
        claim.not_run(Kind::Live, why_not(self.live))
    }

    fn delays(&self, system: System) -> impl Iterator<Item = f64> {
        self.model.loads_of(system).iter().map(|point| point.mean_us)
    }

    fn overhead(&self, said: &words::Claim) -> Claim {
        let judge = |claim: Claim, kind, system: System, found: u64| {
            let asked = said.as_printed(Threshold::Exactly(published(self.study, system)));
            let metric = format!("{}, from P to PE2", system.name());
            claim.judged(kind, Evidence::counted(metric, found, asked).unit("bytes"), "")
        };
        let mut claim = said.open();
        for system in System::ALL {
            let found = modelled(self.model, system, CORE_LINKS[1]) as u64;
            claim = judge(claim, Kind::Model, system, found);
        }
        let Ok(live) = self.live else { return self.not_live(claim) };
        for system in System::ALL {
            claim = match live.octets(system) {
                Some([_, found]) => judge(claim, Kind::Live, system, found as u64),
                None => claim.not_run(Kind::Live, format!("{}: not measured", system.name())),
            };
        }
        claim
    }

    fn hop_delay(&self, said: &words::Claim) -> Claim {
        let extra = self.model.extra_per_hop_us();
        let hops = self.model.hops.iter();
        let plain: Vec<_> = hops.map(|hop| (hop.switches as f64, hop.plain_us)).collect();
        let share = 100.0 * extra / slope(&plain);
        let per_hop = Evidence::computed("more delay for each hop", extra, said.asked("hop"));
        let first = |system| self.delays(system).next().unwrap_or(f64::NAN);
        let path = first(System::Macsec) - first(System::Plain);
        let printed = ["macsec", "plain"].map(|key| self.study.load_of(key).delay_us[0]);
        let off = 100.0 * (path / (printed[0] - printed[1]) - 1.0);
        let path = Evidence::computed("more delay from site to site", path, said.asked("path"));
        let hardly =
            format!("{share:.1} % of a hop's delay; the study says \"hardly\" and no number");
        let sum = format!(
            "{off:+.0} %, with nothing fitted to table 3: 32 more bytes take 0.256 µs on each of \
             four lines"
        );
        let claim = said
            .open()
            .judged(Kind::Fitted, per_hop.unit("µs").against("plain"), hardly)
            .judged(Kind::Model, path.unit("µs").against("plain"), sum);
        let Some(found) = self.live.as_ref().ok().and_then(Live::extra_per_hop_us) else {
            return self.not_live(claim);
        };
        let evidence = Evidence::repeated("more delay for each hop", found, said.asked("hop"));
        let note = "switches are processes on veth pairs";
        claim.judged(Kind::Live, evidence.unit("µs").against("plain, in turn"), note)
    }

    fn load_flat(&self, said: &words::Claim) -> Claim {
        let grows = |delays: &[f64]| {
            let found = ends(delays);
            let times = found.high.unwrap_or(f64::NAN) / found.low.unwrap_or(f64::NAN);
            let growth = 100.0 * (times - 1.0);
            Evidence::computed("growth of delay with load", growth, said.asked("growth")).unit("%")
        };
        let lost = self.model.loads_of(System::Macsec).iter().map(|point| point.lost).sum();
        let loss = Evidence::counted("frames that MACsec lost", lost, said.asked("loss"));
        let full = super::gateway::full_mbps(&self.model.gateway());
        let share = 100.0 * full / self.study.setup.link_rate_mbps;
        let full = Evidence::computed("gateways full at, of the line", share, said.asked("full"));
        let at_95 = format!(
            "\"95 %\" is 930 Mbit/s, 93 %; at 95.0 % {:.2} % are lost, for two labels leave 94.6 %",
            self.model.at_95.loss_percent()
        );
        let delays: Vec<f64> = self.delays(System::Macsec).collect();
        let claim = said
            .open()
            .judged(Kind::Published, grows(&self.study.load_of("macsec").delay_us), "")
            .judged(Kind::Model, loss, at_95)
            .judged(Kind::Model, grows(&delays), "")
            .judged(Kind::Fitted, full.unit("%"), "");
        let claim = self.beyond(claim, said);
        let Ok(live) = self.live else { return self.not_live(claim) };
        let each =
            live.ceilings.iter().map(|(system, mbps)| format!("{} {mbps:.0}", system.name()));
        let each = each.collect::<Vec<_>>().join(", ");
        let why = format!(
            "no lines of 1 Gbit/s here: veth pairs on this machine's processors carry, in Mbit/s, \
             {each}"
        );
        claim.not_run(Kind::Live, why)
    }

    /// Table 2 against the text: above 100 Mbit/s something is lost.
    fn beyond(&self, claim: Claim, said: &words::Claim) -> Claim {
        let mut above = self.model.loads_of(System::Ipsec).iter();
        let Some(point) = above.find(|point| point.load_mbps > LOSSY_MBPS) else { return claim };
        let metric = format!("frames that the gateways lost at {} Mbit/s", point.load_mbps);
        let note = "table 2's losses and the text's 120 Mbit/s exclude each other; the model was \
                    fitted to the text";
        claim.judged(Kind::Model, Evidence::counted(metric, point.lost, said.asked("beyond")), note)
    }

    fn six_times(&self, said: &words::Claim) -> Claim {
        let [ipsec, macsec] = ["ipsec", "macsec"].map(|key| self.study.load_of(key));
        let evidence = |value: Measure| {
            let evidence = Evidence::computed("delay, IPsec to MACsec", value, said.asked(""));
            evidence.unit("times").against("MACsec")
        };
        let printed: Vec<f64> = ipsec.delay_us.iter().map(|d| d / macsec.delay_us[0]).collect();
        let base = self.delays(System::Macsec).next().unwrap_or(f64::NAN);
        let found: Vec<f64> =
            self.delays(System::Ipsec).take(printed.len()).map(|delay| delay / base).collect();
        let note = "at 20 to 80 Mbit/s; at 100 no delay is printed";
        let claim = said.open().judged(Kind::Published, evidence(ends(&printed)), note).judged(
            Kind::Fitted,
            evidence(ends(&found)),
            "the gateways' delays were fitted",
        );
        match self.live.as_ref().ok().and_then(Live::ipsec_to_macsec) {
            Some((load, times)) => claim.judged(
                Kind::Live,
                evidence(times.into()),
                format!("at {load} Mbit/s; both are this machine's scheduler"),
            ),
            None => self.not_live(claim),
        }
    }

    fn ten_times(&self, said: &words::Claim) -> Claim {
        let most = |key| self.study.load_of(key).offered_mbps.iter().copied().fold(0.0, f64::max);
        let (macsec, carried) = (most("macsec"), most("ipsec"));
        let full = self.study.load_of("ipsec").saturates_at_mbps.unwrap_or(f64::NAN);
        let evidence = |value: Measure| {
            let evidence = Evidence::computed("usable load", value, said.asked(""));
            evidence.unit("times").against("IPsec")
        };
        let printed = Measure::within(macsec / LOSSY_MBPS, macsec / full, macsec / carried);
        let found = macsec / super::gateway::full_mbps(&self.model.gateway());
        let by = format!(
            "IPsec carries {carried} Mbit/s by the last row without loss, {LOSSY_MBPS} by the one \
             with, {full} by the text"
        );
        let note = "MACsec's 930 Mbit/s by the gateways' full load, which was fitted";
        let claim = said.open().judged(Kind::Published, evidence(printed), by).judged(
            Kind::Fitted,
            evidence(found.into()),
            note,
        );
        self.not_live(claim)
    }
}
