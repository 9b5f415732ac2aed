//! A server that is busy for a while with each packet: in its processor, or on its bus.

/// Load that arrives of an offered one, where each packet of so many bits occupies the server
/// for so long.
pub fn carried_mbps(offered_mbps: f64, bits: f64, busy_us: f64) -> f64 {
    if busy_us > 0.0 { offered_mbps.min(bits / busy_us) } else { offered_mbps }
}

/// Time of a packet on a bus that it crosses several times, each with a latency beside its clocks.
pub fn bus_us(octets: f64, width_bits: f64, mhz: f64, crossings: f64, latency_us: f64) -> f64 {
    crossings * (octets * 8.0 / width_bits / mhz + latency_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_carries_what_is_offered_up_to_its_capacity() {
        assert_eq!(carried_mbps(100.0, 8_000.0, 40.0), 100.0);
        assert_eq!(carried_mbps(900.0, 8_000.0, 40.0), 200.0);
        assert_eq!(carried_mbps(900.0, 8_000.0, 0.0), 900.0);
        // Section IV.3 of the study toe-ipsec: 1051 clocks of four crossings.
        assert!((bus_us(1051.0, 32.0, 133.0, 4.0, 0.0) - 1051.0 / 133.0).abs() < 1e-9);
    }
}
