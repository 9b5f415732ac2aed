//! Least squares with no negative part.

/// Keeps what the rows cannot tell apart from running away.
const RIDGE: f64 = 1e-12;

/// The `x` with the least `Σ (row · x - value)²` of which no part is negative: as
/// long as one is, the most negative is set to zero and the others are solved
/// again.
pub fn least_squares<const N: usize>(rows: &[([f64; N], f64)]) -> [f64; N] {
    // Parts of equal size: the ridge means the same for each.
    let size = |i: usize| rows.iter().map(|(row, _)| row[i].abs()).fold(0.0, f64::max);
    let scale: [f64; N] = std::array::from_fn(|i| if size(i) > 0.0 { 1.0 / size(i) } else { 0.0 });
    let mut used: [bool; N] = std::array::from_fn(|i| scale[i] > 0.0);
    loop {
        let (mut matrix, mut sums) = ([[0.0; N]; N], [0.0; N]);
        for (i, line) in matrix.iter_mut().enumerate() {
            if !used[i] {
                line[i] = 1.0;
                continue;
            }
            for (row, value) in rows {
                for j in (0..N).filter(|&j| used[j]) {
                    line[j] += row[i] * scale[i] * row[j] * scale[j];
                }
                sums[i] += row[i] * scale[i] * value;
            }
            line[i] += RIDGE * rows.len() as f64;
        }
        let x = eliminate(matrix, sums);
        let least = (0..N).min_by(|&a, &b| x[a].total_cmp(&x[b])).filter(|&i| x[i] < 0.0);
        match least {
            Some(i) => used[i] = false,
            None => return std::array::from_fn(|i| x[i] * scale[i]),
        }
    }
}

/// Gaussian elimination with the largest pivot of each column.
fn eliminate<const N: usize>(mut m: [[f64; N]; N], mut sums: [f64; N]) -> [f64; N] {
    for column in 0..N {
        let pivot = (column..N)
            .max_by(|&a, &b| m[a][column].abs().total_cmp(&m[b][column].abs()))
            .unwrap_or(column);
        m.swap(column, pivot);
        sums.swap(column, pivot);
        let (lead, sum) = (m[column], sums[column]);
        if lead[column] == 0.0 {
            continue;
        }
        for (i, line) in m.iter_mut().enumerate().filter(|(i, _)| *i != column) {
            let factor = line[column] / lead[column];
            line.iter_mut().zip(lead).for_each(|(x, l)| *x -= factor * l);
            sums[i] -= factor * sum;
        }
    }
    std::array::from_fn(|i| if m[i][i] == 0.0 { 0.0 } else { sums[i] / m[i][i] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_base::Rng;

    const N: usize = 9;

    #[test]
    fn least_squares_solves_what_has_a_solution() {
        let truth = [3.0, 0.5, 70.0, 0.0, 1.0, 2.5, 0.0, 9.0, 0.125];
        let mut rng = Rng::new(4);
        let rows: Vec<([f64; N], f64)> = (0..30)
            .map(|_| {
                let row: [f64; N] = std::array::from_fn(|_| rng.below(1000) as f64);
                (row, row.iter().zip(truth).map(|(a, b)| a * b).sum())
            })
            .collect();
        for (x, truth) in least_squares(&rows).into_iter().zip(truth) {
            assert!((x - truth).abs() < 1e-3, "{x} for {truth}");
        }
    }

    #[test]
    fn least_squares_gives_nothing_negative_and_nothing_for_what_was_never_used() {
        let mut rows = Vec::new();
        for n in 1..20 {
            let mut row = [0.0; N];
            (row[0], row[1]) = (1.0, f64::from(n));
            rows.push((row, 100.0 - f64::from(n)));
        }
        let x = least_squares(&rows);
        assert!(x.iter().all(|&v| v >= 0.0) && x[1] == 0.0 && (x[0] - 90.0).abs() < 0.001, "{x:?}");
    }
}
