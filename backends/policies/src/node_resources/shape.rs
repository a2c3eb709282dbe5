//! A scoring function that the operator defines: from a utilization in hundredths to a score.

/// Linear between points; constant before the first and after the last. Mirrors `BuildBrokenLinearFunction` of
/// kube-scheduler.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// At least one, by ascending utilization.
    points: Vec<Point>,
}

/// One point of the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    /// 0 to 100.
    pub(super) utilization: i64,
    /// 0 to 100.
    pub(super) score: i64,
}

impl Shape {
    /// `None` without points, or if they do not ascend.
    pub(super) fn through(points: Vec<Point>) -> Option<Self> {
        let ascend = points.windows(2).all(|pair| pair[0].utilization < pair[1].utilization);
        (ascend && !points.is_empty()).then_some(Self { points })
    }

    /// 0 to 100, rounded towards the score of the previous point.
    pub(super) fn at(&self, utilization: i64) -> i64 {
        let after = self.points.partition_point(|point| point.utilization < utilization);
        match (after.checked_sub(1).map(|before| self.points[before]), self.points.get(after)) {
            (Some(from), Some(to)) => {
                let (rise, run) = (to.score - from.score, to.utilization - from.utilization);
                from.score + rise * (utilization - from.utilization) / run
            }
            (None, Some(only)) => only.score,
            (Some(last), None) => last.score,
            (None, None) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(points: &[(i64, i64)]) -> Option<Shape> {
        Shape::through(points.iter().map(|&(utilization, score)| Point { utilization, score }).collect())
    }

    #[test]
    fn lines_join_the_points() {
        let rising = shape(&[(0, 0), (100, 100)]).unwrap();
        let bent = shape(&[(10, 100), (40, 0), (50, 10)]).unwrap();
        for (shape, utilization, expected) in [
            (&rising, 0, 0),
            (&rising, 37, 37),
            (&rising, 100, 100),
            (&bent, 0, 100),
            (&bent, 10, 100),
            (&bent, 11, 97),
            (&bent, 40, 0),
            (&bent, 45, 5),
            (&bent, 100, 10),
        ] {
            assert_eq!(shape.at(utilization), expected, "{shape:?} at {utilization}");
        }
    }

    #[test]
    fn points_must_ascend() {
        assert_eq!((shape(&[]), shape(&[(5, 1), (5, 2)]), shape(&[(6, 1), (5, 2)])), (None, None, None));
    }
}
