//! The program needs one core to measure on and one that waits; Debian has it in `dpdk-dev`.

use crate::peer;
use std::process::Command;

const PROGRAM: &str = "dpdk-test-crypto-perf";

/// Two cores: one to measure on, and one for the thread that waits.
pub struct Dpdk {
    cores: [usize; 2],
    /// Every core that the program may use.
    all: String,
}

impl Dpdk {
    /// The program, where it is installed and there are two cores; an error says what is missing.
    pub fn find() -> Result<Self, String> {
        let there = Command::new("sh").args(["-c", &format!("command -v {PROGRAM}")]).output();
        if !there.is_ok_and(|o| o.status.success()) {
            return Err(format!("no {PROGRAM} (Debian: dpdk-dev, librte-crypto-ipsec-mb23)"));
        }
        let all = peer::cores().unwrap_or_default();
        let cores: Vec<usize> =
            all.split([',', '-']).filter_map(|core| core.parse().ok()).collect();
        match cores[..] {
            [first, .., last] if first != last => Ok(Self { cores: [last, first], all }),
            _ => Err("it needs two cores".to_owned()),
        }
    }

    /// Seals so many texts of `len` octets with eight octets of additional data, in
    /// bursts of 32: how many, their nanoseconds and clocks.
    pub fn seal(&self, len: usize, packets: usize) -> Result<(usize, f64, f64), String> {
        let [measures, waits] = self.cores;
        let words = format!(
            "--lcores 0@{waits},1@{measures} --no-huge -m 256 --no-pci --no-telemetry --log-level=4 \
             --vdev crypto_aesni_gcm0 -- --ptest throughput --silent --devtype crypto_aesni_gcm \
             --optype aead --aead-algo aes-gcm --aead-op encrypt --aead-key-sz 16 --aead-iv-sz 12 \
             --aead-aad-sz 8 --digest-sz 16 --buffer-sz {len} --burst-sz 32 \
             --total-ops {packets} --pool-sz 4096"
        );
        // This process may be on one of them alone.
        let mut program = Command::new("taskset");
        program.args(["-c", &self.all, PROGRAM]).args(words.split_whitespace());
        let output = program.output();
        let output = output.map_err(|e| format!("{PROGRAM}: {e}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        // Of a row: the last number is clocks per operation, two before that is
        // millions of operations a second.
        let row = |line: &str| -> Option<[f64; 10]> {
            let numbers: Vec<f64> =
                line.split_whitespace().filter_map(|w| w.parse().ok()).collect();
            numbers.try_into().ok()
        };
        let row = text.lines().find_map(row).ok_or_else(|| {
            let why = String::from_utf8_lossy(&output.stderr);
            format!("{PROGRAM}: {}", why.lines().last().unwrap_or("no figures"))
        })?;
        let (done, mops, clocks) = (row[4], row[7], row[9]);
        Ok((done as usize, done / mops * 1000.0, done * clocks))
    }
}
