//! Statistics over repeats: mean with a confidence interval by Student's t, median with one by
//! order statistics.

/// Repeats of one measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Number of values.
    pub count: usize,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Their mean.
    pub mean: f64,
    /// Their median.
    pub median: f64,
    /// Sample standard deviation; 0 for one alone.
    pub deviation: f64,
    /// Bounds that hold the true mean with 95 % confidence if errors are normal
    /// (Student's t); nothing for one alone.
    pub mean_95: Option<(f64, f64)>,
    /// Bounds that hold the true median with at least 95 % confidence whatever
    /// the distribution (order statistics); nothing for fewer than six.
    pub median_95: Option<(f64, f64)>,
}

/// Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// Student's t for a two-sided interval of 95 %. Above 30 degrees of freedom by
/// the expansion around the normal quantile.
fn t_95(freedom: usize) -> f64 {
    const Z: f64 = 1.959_964;
    T_95.get(freedom - 1).copied().unwrap_or_else(|| {
        let n = freedom as f64;
        let (z3, z5) = (Z.powi(3), Z.powi(5));
        Z + (z3 + Z) / (4.0 * n) + (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / (96.0 * n * n)
    })
}

/// The largest rank k (from 1) so that the k-th smallest and the k-th largest of
/// `count` hold the median with at least 95 % confidence: the binomial
/// distribution with one half.
fn median_rank(count: usize) -> Option<usize> {
    let mut term = 0.5f64.powi(i32::try_from(count).ok()?);
    let (mut below, mut rank) = (0.0, 0);
    for k in 0..count {
        below += term;
        if below > 0.025 {
            break;
        }
        rank = k + 1;
        term *= (count - k) as f64 / (k + 1) as f64;
    }
    (rank > 0).then_some(rank)
}

impl Summary {
    /// Summary of some values; nothing if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let count = sorted.len();
        let mean = sorted.iter().sum::<f64>() / count as f64;
        let squares: f64 = sorted.iter().map(|v| (v - mean).powi(2)).sum();
        let deviation = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        let median = f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]);
        let mean_95 = (count > 1).then(|| {
            let half = t_95(count - 1) * deviation / (count as f64).sqrt();
            (mean - half, mean + half)
        });
        let median_95 = median_rank(count).map(|k| (sorted[k - 1], sorted[count - k]));
        Some(Self { count, min, max, mean, median, deviation, mean_95, median_95 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_base::Rng;

    #[test]
    fn student_interval_of_a_known_sample() {
        // 10 values, mean 10, deviation 1: t(9) = 2.262.
        let deviation = (9.0f64 / 10.0).sqrt();
        let values: Vec<f64> =
            (0..10).map(|i| 10.0 + if i % 2 == 0 { deviation } else { -deviation }).collect();
        let summary = Summary::of(&values).unwrap();
        assert!((summary.deviation - 1.0).abs() < 1e-12);
        let (low, high) = summary.mean_95.unwrap();
        assert!((high - 10.0 - 2.262 / 10f64.sqrt()).abs() < 1e-9);
        assert!((low + high - 20.0).abs() < 1e-9);
        // Tables say 2.021 for 40 and 1.984 for 100 degrees of freedom.
        assert!((t_95(40) - 2.021).abs() < 6e-4 && (t_95(100) - 1.984).abs() < 6e-4);
    }

    #[test]
    fn median_ranks_are_those_of_the_sign_test() {
        // Known from tables of the sign test: n = 6 to 10, 15, 20, 25.
        for (count, rank) in [(5, None), (6, Some(1)), (8, Some(1)), (9, Some(2)), (10, Some(2))] {
            assert_eq!(median_rank(count), rank, "{count}");
        }
        assert_eq!(
            (median_rank(15), median_rank(20), median_rank(25)),
            (Some(4), Some(6), Some(8))
        );
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let (mut rng, mut by_mean, mut by_median) = (Rng::new(1), 0, 0);
        for _ in 0..2000 {
            // Sums of twelve uniform numbers: nearly normal around 6.
            let mut value =
                || (0..12).map(|_| rng.below(1 << 32) as f64 / (1u64 << 32) as f64).sum::<f64>();
            let values: Vec<f64> = (0..11).map(|_| value()).collect();
            let summary = Summary::of(&values).unwrap();
            let holds =
                |b: Option<(f64, f64)>| b.is_some_and(|(low, high)| low <= 6.0 && 6.0 <= high);
            by_mean += usize::from(holds(summary.mean_95));
            by_median += usize::from(holds(summary.median_95));
        }
        assert!((1870..=1930).contains(&by_mean), "{by_mean} of 2000");
        assert!(by_median >= 1880, "{by_median} of 2000");
    }
}
