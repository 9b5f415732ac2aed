//! Streams of dice, and the distributions that a simulation needs.
//!
//! Every stream is derived from the seed of the network, the name of who rolls
//! and the purpose, so that nothing that is added changes another's dice.
//! Logarithm and exponential are computed here, from additions, products and
//! quotients alone: those are the same on every machine, which a platform's
//! mathematical library need not be.

use ferrule_base::Rng;

/// The stream of `name` for `purpose`.
pub fn stream(seed: u64, name: &str, purpose: &str) -> Rng {
    let mut state = Rng::new(seed).next_u64();
    // The octets, each into a state that is mixed afterwards.
    for &octet in name.as_bytes().iter().chain([&0xff]).chain(purpose.as_bytes()) {
        state = Rng::new(state ^ u64::from(octet)).next_u64();
    }
    Rng::new(state)
}

/// A number in (0, 1], with 53 bits.
pub fn unit(rng: &mut Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// True with probability `share`.
pub fn happens(rng: &mut Rng, share: f64) -> bool {
    share > 0.0 && unit(rng) <= share
}

/// The natural logarithm of a positive number.
pub fn ln(x: f64) -> f64 {
    if x.is_nan() || x <= 0.0 {
        return f64::NEG_INFINITY;
    }
    let bits = x.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    // The mantissa in [1, 2), then in [0.7, 1.42), where the series is short.
    let mut m = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    let mut e = exponent as f64;
    if m > std::f64::consts::SQRT_2 {
        (m, e) = (m / 2.0, e + 1.0);
    }
    // ln m = 2 artanh((m - 1) / (m + 1)).
    let z = (m - 1.0) / (m + 1.0);
    let square = z * z;
    let (mut sum, mut power) = (0.0, z);
    for k in 0..13 {
        sum += power / f64::from(2 * k + 1);
        power *= square;
    }
    2.0 * sum + e * std::f64::consts::LN_2
}

/// e to the power of `x`.
pub fn exp(x: f64) -> f64 {
    if x < -700.0 {
        return 0.0;
    }
    let x = x.min(700.0);
    let halves = (x / std::f64::consts::LN_2).round();
    let rest = x - halves * std::f64::consts::LN_2;
    let (mut sum, mut term) = (1.0, 1.0);
    for k in 1..18 {
        term *= rest / f64::from(k);
        sum += term;
    }
    sum * f64::from_bits(((halves as i64 + 1023) as u64) << 52)
}

/// An exponential time with mean 1.
pub fn exponential(rng: &mut Rng) -> f64 {
    -ln(unit(rng))
}

/// A normal number with mean 0 and variance 1 (the polar method).
pub fn normal(rng: &mut Rng) -> f64 {
    loop {
        let (u, v) = (2.0 * unit(rng) - 1.0, 2.0 * unit(rng) - 1.0);
        let s = u * u + v * v;
        if s < 1.0 && s > 0.0 {
            return u * (-2.0 * ln(s) / s).sqrt();
        }
    }
}

/// A gamma time with mean 1 and squared coefficient of variation `scv`
/// (Marsaglia and Tsang 2000; shapes below 1 by its section 6).
pub fn gamma(rng: &mut Rng, scv: f64) -> f64 {
    let shape = 1.0 / scv;
    if shape < 1.0 {
        let boost = exp(ln(unit(rng)) / shape);
        return standard_gamma(rng, shape + 1.0) * boost / shape;
    }
    standard_gamma(rng, shape) / shape
}

fn standard_gamma(rng: &mut Rng, shape: f64) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(rng);
        let v = 1.0 + c * x;
        if v <= 0.0 {
            continue;
        }
        let v = v * v * v;
        if ln(unit(rng)) < 0.5 * x * x + d - d * v + d * ln(v) {
            return d * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_and_exponential_agree_with_the_platform() {
        let mut rng = Rng::new(1);
        for _ in 0..10_000 {
            let x = exp(40.0 * unit(&mut rng) - 20.0);
            assert!((ln(x) - x.ln()).abs() <= 1e-13 * x.ln().abs().max(1.0), "ln {x}");
            let y = ln(x);
            assert!((exp(y) / y.exp() - 1.0).abs() < 1e-13, "exp {y}");
        }
        assert_eq!((ln(1.0), exp(0.0)), (0.0, 1.0));
    }

    #[test]
    fn gamma_times_have_the_mean_and_the_variation_asked_for() {
        for scv in [0.1, 0.5, 1.0, 2.0, 4.0] {
            let mut rng = Rng::new(7);
            let n = 200_000;
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..n {
                let x = gamma(&mut rng, scv);
                sum += x;
                squares += x * x;
            }
            let mean = sum / f64::from(n);
            let variance = squares / f64::from(n) - mean * mean;
            assert!((mean - 1.0).abs() < 0.02, "scv {scv}: mean {mean}");
            assert!((variance / scv - 1.0).abs() < 0.06, "scv {scv}: variance {variance}");
        }
    }

    #[test]
    fn streams_of_a_seed_are_apart() {
        let first = |s: u64, n: &str, p: &str| stream(s, n, p).next_u64();
        let all = [
            first(1, "a", "loss"),
            first(1, "a", "jitter"),
            first(1, "b", "loss"),
            first(2, "a", "loss"),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
        assert_eq!(first(1, "a", "loss"), all[0]);
        assert_ne!(first(1, "al", "oss"), all[0]);
    }
}
