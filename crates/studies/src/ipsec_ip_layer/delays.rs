//! Verdicts on the claims of section 7 on delays: Telnet's, growing ones, and the advice.

use super::cases::{Application, Protection, TIMED_MOST};
use super::claims::{Given, SMALL, kind, live_sizes, times, transport, unequal};
use super::model::Which;
use crate::words::{self, ends};
use ferrule_report::{Claim, Evidence, Kind, Measure};

/// Protections of the printed slowdowns.
const PRINTED: [Protection; 2] = [Protection::AhMd5, Protection::EspDes];

/// Application and octets of a transfer.
type Transfer = (Application, u64);

/// Differences in time, which are to be above nothing.
fn milliseconds(metric: String, value: Measure, said: &words::Claim) -> Evidence {
    Evidence::computed(metric, value, said.asked("")).unit("ms")
}

impl Given<'_> {
    /// Time that AH and ESP add to a transfer, less what they add to another one.
    fn more(&self, which: Which, of: Transfer, than: Transfer) -> [f64; 2] {
        PRINTED.map(|protection| {
            let way = transport(protection);
            let added =
                |(application, octets)| self.model.added_ms(which, application, octets, way);
            added(of) - added(than)
        })
    }

    /// The same on this machine under AH-SHA1, round by round.
    fn more_live(&self, of: Transfer, than: Transfer) -> Result<Vec<f64>, String> {
        let added =
            |(application, octets)| self.live.added_ms(application, octets, Protection::AhSha1);
        Ok(added(of)?.iter().zip(added(than)?).map(|(of, than)| of - than).collect())
    }

    fn judged_live(
        claim: Claim,
        said: &words::Claim,
        found: Result<(String, Vec<f64>), String>,
    ) -> Claim {
        match found {
            Ok((metric, found)) => {
                let evidence = Evidence::repeated(metric, words::repeated(&found), said.asked(""));
                claim.judged(Kind::Live, evidence.unit("ms"), "AH-SHA1")
            }
            Err(why) => claim.not_run(Kind::Live, why),
        }
    }

    /// Telnet of the smallest transfer beside FTP of the largest.
    pub fn telnet(&self, said: &words::Claim) -> Claim {
        let mut claim =
            said.open().not_run(Kind::Asserted, "said in section 7: Telnet has no figures");
        let metric = |large, small| {
            format!("time added to FTP of {large} bytes, less that to Telnet of {small}")
        };
        let large = self.model.largest(TIMED_MOST);
        let small = self.model.sizes.first().copied().unwrap_or(0);
        let (ftp, telnet) = ((Application::Ftp, large), (Application::Telnet, small));
        for which in Which::ALL {
            let found = ends(&self.more(which, ftp, telnet));
            let slowdowns = PRINTED.map(|protection| {
                self.model.slowdown(which, Application::Telnet, small, transport(protection))
            });
            let [ah, esp] = slowdowns;
            let note = format!(
                "{} machine; as a ratio Telnet takes {ah:.2} times as long under AH-MD5, {esp:.2} \
                 under ESP-DES",
                which.name()
            );
            claim =
                claim.judged(kind(which), milliseconds(metric(large, small), found, said), note);
        }
        let found = live_sizes(self.live).and_then(|(_, large)| {
            let sizes = self.live.sizes(Application::Telnet);
            let small = *sizes.first().ok_or("no Telnet")?;
            let of = (Application::Ftp, large);
            Ok((metric(large, small), self.more_live(of, (Application::Telnet, small))?))
        });
        Self::judged_live(claim, said, found)
    }

    /// Time added to large transfers beside that added to small ones.
    pub fn grows(&self, said: &words::Claim) -> Claim {
        let mut claim = said.open().not_run(
            Kind::Asserted,
            "in words: milliseconds for 100 and 1000 bytes, tens of seconds for some MB (section \
             6.3); no response time is printed",
        );
        let metric = |application: Application, large, small| {
            let name = application.name();
            format!("time added to {name} of {large} bytes, less that to {small} bytes")
        };
        let (small, large) = (*SMALL.start(), self.model.largest(TIMED_MOST));
        for which in Which::ALL {
            for application in [Application::Ftp, Application::Smtp] {
                let found = self.more(which, (application, large), (application, small));
                let metric = metric(application, large, small);
                let evidence = milliseconds(metric, ends(&found), said);
                let note = format!("{} machine, AH-MD5 and ESP-DES", which.name());
                claim = claim.judged(kind(which), evidence, note);
            }
        }
        let found = live_sizes(self.live).and_then(|(small, large)| {
            let ftp = Application::Ftp;
            Ok((metric(ftp, large, small), self.more_live((ftp, large), (ftp, small))?))
        });
        Self::judged_live(claim, said, found)
    }

    /// Slowdown of bulk by that of hundreds of bytes. The fitted machine's is the print's.
    pub fn suits(&self, said: &words::Claim) -> Claim {
        let mut claim = said.open();
        let small_one = "that of small ones";
        for application in ["FTP", "SMTP"] {
            let Some([small, large]) = self.ends(application) else { continue };
            let found = ends(&[large.0 / small.0, large.1 / small.1]);
            let metric = format!("slowdown of large transfers, {application}");
            let evidence = unequal(times(&metric, found, said, "").against(small_one));
            let note =
                format!("AH {} against {}, ESP {} against {}", large.0, small.0, large.1, small.1);
            claim = claim.judged(Kind::Published, evidence, note);
        }
        let (small, large) = (*SMALL.start(), self.model.largest(TIMED_MOST));
        let by_none = |octets, of| self.response(Which::Plausible, octets, [of, Protection::None]);
        let found = PRINTED.map(|of| by_none(large, of) / by_none(small, of));
        let metric = format!("slowdown, FTP of {large} bytes");
        let evidence = times(&metric, ends(&found), said, "").against(format!("{small} bytes"));
        claim = claim.judged(Kind::Model, unequal(evidence), "plausible machine");
        let found = live_sizes(self.live).and_then(|(small, large)| {
            let of = |octets| self.live.ratio(octets, Protection::AhSha1, Protection::None);
            let found: Vec<f64> = of(large)?.iter().zip(of(small)?).map(|(l, s)| l / s).collect();
            Ok((found, small, large))
        });
        match found {
            Ok((found, small, large)) => {
                let metric = format!("slowdown, FTP of {large} bytes");
                let found = words::repeated(&found);
                let evidence = Evidence::repeated(metric, found, said.asked("")).unit("times");
                let evidence = unequal(evidence.against(format!("{small} bytes")));
                claim.judged(Kind::Live, evidence, "AH-SHA1")
            }
            Err(why) => claim.not_run(Kind::Live, why),
        }
    }
}
