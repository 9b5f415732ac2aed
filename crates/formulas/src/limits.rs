//! A device on lines of a fixed rate, limited in frames and in bits a second.

/// Octets of preamble, start and gap.
const LINE_OVERHEAD: f64 = 20.0;
/// Octets of a frame that a limit of bits does not count.
const FCS: f64 = 4.0;

/// Limits of a device; zero is none.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bits a second of the lines.
    pub line: f64,
    /// Frames a second.
    pub frames: f64,
    /// Bits a second of frames without FCS.
    pub bits: f64,
    /// Octets that a frame has more on the line behind the device.
    pub label: f64,
}

/// Frames a second that a device takes of so many octets, offered as many as the line carries.
pub fn rate(limits: &Limits, octets: f64) -> f64 {
    let line = limits.line / (8.0 * (octets + limits.label + LINE_OVERHEAD));
    let bits = limits.bits / (8.0 * (octets - FCS));
    let bound =
        |rate: f64, limit: f64, value: f64| if limit > 0.0 { rate.min(value) } else { rate };
    bound(bound(line, limits.frames, limits.frames), limits.bits, bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_of_line_frames_and_bits_decides() {
        let none = Limits { line: 1e9, frames: 0.0, bits: 0.0, label: 0.0 };
        assert!((rate(&none, 64.0) - 1_488_095.2).abs() < 0.1);
        let frames = Limits { frames: 9e5, ..none };
        assert_eq!(rate(&frames, 64.0), 9e5);
        assert_eq!(rate(&frames, 1024.0), rate(&none, 1024.0));
        let bits = Limits { bits: 9e8, ..none };
        assert!((rate(&bits, 1024.0) - 9e8 / 8160.0).abs() < 1e-6);
        assert!(rate(&Limits { label: 4.0, ..none }, 64.0) < rate(&none, 64.0));
    }
}
