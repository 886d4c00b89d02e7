//! How flat the controller's memory and descriptors are.

use serde_json::{Value, json};

/// One look at the process.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) minutes: f64,
    pub(crate) process: u32,
    pub(crate) resident_mib: u64,
    pub(crate) descriptors: usize,
}

/// First, median, last, and growth per hour by least squares.
#[derive(Clone, Copy, Default)]
pub(crate) struct Curve {
    first: f64,
    median: f64,
    last: f64,
    per_hour: f64,
}

impl Curve {
    fn of(points: &[(f64, f64)]) -> Self {
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            return Self::default();
        };
        let mut values: Vec<f64> = points.iter().map(|p| p.1).collect();
        values.sort_by(f64::total_cmp);
        let count = values.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|p| p.0), mean(|p| p.1));
        let covariance: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
        let variance: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
        let slope = if variance > 0.0 { covariance / variance * 60.0 } else { 0.0 };
        Self { first: first.1, median: values[values.len() / 2], last: last.1, per_hour: slope }
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "first": self.first, "median": self.median, "last": self.last, "per_hour": self.per_hour })
    }

    pub(crate) fn line(&self, what: &str, unit: &str) -> String {
        let Self { first, median, last, per_hour } = self;
        format!(
            "{what}: first {first:.0}, median {median:.0}, last {last:.0} {unit}, {per_hour:+.1} {unit} an hour"
        )
    }
}

/// Memory and descriptors of the process that lived last, from when it had warmed up.
pub(crate) fn curves(samples: &[Sample]) -> (Curve, Curve, f64) {
    let Some(last) = samples.last() else {
        return Default::default();
    };
    let of_it: Vec<&Sample> = samples.iter().filter(|s| s.process == last.process).collect();
    let begins = of_it.first().map_or(0.0, |s| s.minutes + 1.0);
    let warm: Vec<&Sample> = of_it.into_iter().filter(|s| s.minutes >= begins).collect();
    let points =
        |of: fn(&Sample) -> f64| warm.iter().map(|s| (s.minutes, of(s))).collect::<Vec<_>>();
    let minutes = warm.last().map_or(0.0, |l| l.minutes - begins);
    (
        Curve::of(&points(|s| s.resident_mib as f64)),
        Curve::of(&points(|s| s.descriptors as f64)),
        minutes,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_told_by_the_hour() {
        let curve = Curve::of(&[(0.0, 10.0), (30.0, 11.0), (60.0, 12.0)]);
        assert_eq!((curve.first, curve.median, curve.last), (10.0, 11.0, 12.0));
        assert!((curve.per_hour - 2.0).abs() < 1e-9);
    }
}
