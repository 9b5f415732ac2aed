//! Live measurements: transfers of real programs through Ferrule's nodes in namespaces, and costs
//! of suites from memory to memory.

use super::cases::{Application, Mode, Protection, Way};

/// Octets of the text for which suites are measured: from one to 64 KiB less headers.
pub const COST_OCTETS: [usize; 9] = [1, 16, 64, 256, 1024, 1460, 4096, 16_384, 65_408];

/// One transfer of one program.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// The application that transferred.
    pub application: Application,
    /// Octets of the file, of the message's body, of the output.
    pub octets: u64,
    /// Treatment of the packets.
    pub protection: Protection,
    /// Without SAs: transport.
    pub mode: Mode,
    /// Counted from 0, for each case.
    pub repetition: u32,
    /// From the first octet of the request to the last of the answer, in microseconds.
    pub response_us: f64,
    /// Time that the workers of both hosts' nodes spent on the transfer; `None` if it was not
    /// counted.
    pub spent: Option<Spent>,
}

/// Time of the nodes' workers, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// Looking up policies and SAs.
    pub lookup_us: f64,
    /// Copying: fragments, and what is put together.
    pub copy_us: f64,
    /// Hash and cipher.
    pub crypto_us: f64,
    /// The nodes' other work.
    pub other_us: f64,
}

impl Spent {
    /// Sum of the parts.
    pub fn total_us(&self) -> f64 {
        self.lookup_us + self.copy_us + self.crypto_us + self.other_us
    }
}

/// Transfers, and what they are worth.
#[derive(Clone, Debug, Default)]
pub struct Transfers {
    /// Programs, kernel, what is between them: a sentence or two.
    pub note: String,
    /// Every transfer, in any order.
    pub all: Vec<Transfer>,
    /// Transfers between hosts without a node between them.
    pub bare: Vec<Transfer>,
    /// Cases that cannot be measured here, with the reason, such as a suite that is
    /// refused outside the laboratory.
    pub not_here: Vec<(Protection, String)>,
}

/// Cost of a packet under a suite, from memory to memory.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// The protection.
    pub protection: Protection,
    /// Octets of the text.
    pub octets: usize,
    /// Sealing one packet at a time, in nanoseconds: the median of rounds.
    pub ns: f64,
    /// The quietest and the busiest round.
    pub between: (f64, f64),
}

/// Measured on the machine at hand, each part or why it is missing.
#[derive(Clone, Debug)]
pub struct Live {
    /// Programs' transfers.
    pub transfers: Result<Transfers, String>,
    /// Suites by size.
    pub costs: Result<Vec<Cost>, String>,
}

/// Several repetitions: the median, the least and the greatest.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Middle {
    pub median: f64,
    pub least: f64,
    pub greatest: f64,
}

/// The middle of some values; nothing of none.
pub fn middle(mut values: Vec<f64>) -> Option<Middle> {
    values.sort_by(f64::total_cmp);
    let (least, greatest) = (*values.first()?, *values.last()?);
    Some(Middle { median: values[values.len() / 2], least, greatest })
}

impl Live {
    /// Nothing was measured, for this reason.
    pub fn none(why: &str) -> Self {
        Self { transfers: Err(why.into()), costs: Err(why.into()) }
    }

    /// The response of a case, in microseconds, or why there is none.
    pub fn response(
        &self,
        application: Application,
        octets: u64,
        way: Way,
    ) -> Result<Middle, String> {
        let each = self.of(application, octets, way)?;
        middle(each.iter().map(|t| t.response_us).collect()).ok_or("not measured".into())
    }

    /// Time that a protection adds to a transfer, round by round, in milliseconds.
    pub fn added_ms(
        &self,
        application: Application,
        octets: u64,
        of: Protection,
    ) -> Result<Vec<f64>, String> {
        let each = |protection| self.of(application, octets, Way::of(protection, Mode::Transport));
        let added = |a: f64, b: f64| (a - b) / 1000.0;
        Ok(by_round(&each(of)?, &each(Protection::None)?, added))
    }

    /// FTP's response with a protection by that with another one, round by round.
    pub fn ratio(&self, octets: u64, of: Protection, by: Protection) -> Result<Vec<f64>, String> {
        let each =
            |protection| self.of(Application::Ftp, octets, Way::of(protection, Mode::Transport));
        Ok(by_round(&each(of)?, &each(by)?, |a, b| a / b))
    }

    /// The same by hosts without any node.
    pub fn by_bare(&self, octets: u64, of: Protection) -> Result<Vec<f64>, String> {
        let transfers = self.transfers.as_ref().map_err(Clone::clone)?;
        let same = |t: &&Transfer| (t.application, t.octets) == (Application::Ftp, octets);
        let bare: Vec<&Transfer> = transfers.bare.iter().filter(same).collect();
        if bare.is_empty() {
            return Err("no hosts without a node".into());
        }
        let of = self.of(Application::Ftp, octets, Way::of(of, Mode::Transport))?;
        Ok(by_round(&of, &bare, |a, b| a / b))
    }

    /// Time that the nodes spent on a case: the median of the transfers for which it was counted.
    pub fn spent(&self, application: Application, octets: u64, way: Way) -> Result<Spent, String> {
        let each = self.of(application, octets, way)?;
        let mut spent: Vec<Spent> = each.iter().filter_map(|t| t.spent).collect();
        spent.sort_by(|a, b| a.total_us().total_cmp(&b.total_us()));
        spent.get(spent.len() / 2).copied().ok_or("not attributed".into())
    }

    /// Sizes that were measured of an application, each once.
    pub fn sizes(&self, application: Application) -> Vec<u64> {
        let all = self.transfers.iter().flat_map(|transfers| &transfers.all);
        let mut sizes: Vec<u64> =
            all.filter(|t| t.application == application).map(|t| t.octets).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// A cost of a suite, or why there is none.
    pub fn cost(&self, protection: Protection, octets: usize) -> Result<&Cost, String> {
        let costs = self.costs.as_ref().map_err(Clone::clone)?;
        let found = costs.iter().find(|c| c.protection == protection && c.octets == octets);
        found.ok_or_else(|| "not measured".into())
    }

    fn of(
        &self,
        application: Application,
        octets: u64,
        way: Way,
    ) -> Result<Vec<&Transfer>, String> {
        let transfers = self.transfers.as_ref().map_err(Clone::clone)?;
        let refused = transfers.not_here.iter().find(|(which, _)| *which == way.protection);
        let each = transfers.all.iter().filter(|t| {
            (t.application, t.octets) == (application, octets)
                && Way::of(t.protection, t.mode) == way
        });
        let each: Vec<&Transfer> = each.collect();
        match (each.is_empty(), refused) {
            (false, _) => Ok(each),
            (true, Some((_, why))) => Err(why.clone()),
            (true, None) => Err("not measured".into()),
        }
    }
}

/// Responses compared with those of the same round.
fn by_round(of: &[&Transfer], by: &[&Transfer], compared: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let each = |one: &&Transfer| {
        let other = by.iter().find(|other| other.repetition == one.repetition)?;
        Some(compared(one.response_us, other.response_us))
    };
    of.iter().filter_map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(repetition: u32, response_us: f64, spent: Option<Spent>) -> Transfer {
        Transfer {
            application: Application::Ftp,
            octets: 100,
            protection: Protection::AhSha1,
            mode: Mode::Tunnel,
            repetition,
            response_us,
            spent,
        }
    }

    #[test]
    fn live_repetitions_have_a_middle_and_what_is_missing_says_why() {
        let spent = |crypto_us| Some(Spent { crypto_us, ..Spent::default() });
        let all =
            vec![transfer(0, 9.0, spent(4.0)), transfer(1, 5.0, None), transfer(2, 7.0, None)];
        let not_here = vec![(Protection::EspDes, "refused outside the laboratory".to_owned())];
        let transfers = Ok(Transfers { note: "as if".into(), all, bare: Vec::new(), not_here });
        let live = Live { transfers, costs: Err("not run: no clock".into()) };
        let way = |protection| Way::of(protection, Mode::Tunnel);
        let found = live.response(Application::Ftp, 100, way(Protection::AhSha1));
        assert_eq!(found, Ok(Middle { median: 7.0, least: 5.0, greatest: 9.0 }));
        let found = live.spent(Application::Ftp, 100, way(Protection::AhSha1)).map(|s| s.crypto_us);
        assert_eq!(found, Ok(4.0));
        let why = |protection| live.response(Application::Ftp, 100, way(protection)).unwrap_err();
        assert_eq!(why(Protection::EspDes), "refused outside the laboratory");
        assert_eq!(why(Protection::AesGcm), "not measured");
        assert_eq!(live.cost(Protection::AesGcm, 64).unwrap_err(), "not run: no clock");
        assert_eq!(live.sizes(Application::Ftp), [100]);
        // Without SAs both modes are one.
        assert_eq!(way(Protection::Bypass).mode, Mode::Transport);
        assert_eq!(Way::all().count(), 10);
    }
}
