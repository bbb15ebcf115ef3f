//! The table of a run: one line for each check, and the verdict.

use std::fmt;

/// The result of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckResult {
    Passed,
    Failed,
    /// A measurement without a limit.
    Measured,
}

impl CheckResult {
    /// The result of a condition.
    pub fn of(holds: bool) -> Self {
        if holds { Self::Passed } else { Self::Failed }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "ok",
            Self::Failed => "FAILED",
            Self::Measured => "",
        }
    }
}

/// The lines of the table.
#[derive(Debug, Default)]
pub struct ReplicaReport(Vec<(String, String, CheckResult)>);

impl ReplicaReport {
    /// Adds a check.
    pub fn check(&mut self, name: &str, seen: impl Into<String>, holds: bool) {
        self.0.push((name.to_owned(), seen.into(), CheckResult::of(holds)));
    }

    /// Adds a check that lists what is wrong; it passes if the list is empty.
    pub fn none_of(&mut self, name: &str, wrong: &[String]) {
        let seen = match wrong {
            [] => "none".to_owned(),
            [first, ..] => format!("{}: {first}", wrong.len()),
        };
        self.check(name, seen, wrong.is_empty());
    }

    /// Adds a measurement.
    pub fn measure(&mut self, name: &str, seen: impl Into<String>) {
        self.0.push((name.to_owned(), seen.into(), CheckResult::Measured));
    }

    /// The numbers of checks that passed and failed.
    pub fn count(&self) -> (usize, usize) {
        let count = |wanted| self.0.iter().filter(|(.., result)| *result == wanted).count();
        (count(CheckResult::Passed), count(CheckResult::Failed))
    }
}

impl fmt::Display for ReplicaReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
        for (name, seen, result) in &self.0 {
            let result = result.as_str();
            writeln!(f, "{name:width$}  {result:6}  {seen}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_per_check() {
        let mut report = ReplicaReport::default();
        report.check("lists are equal", "3 of 3", true);
        report.none_of("writes that ran twice", &[]);
        report.none_of("lost calls", &["w-7 has 0 rows".into(), "w-9 has 0 rows".into()]);
        report.measure("calls per second", "120");
        let lines = [
            "lists are equal        ok      3 of 3",
            "writes that ran twice  ok      none",
            "lost calls             FAILED  2: w-7 has 0 rows",
            "calls per second               120",
        ];
        assert_eq!(report.to_string().lines().collect::<Vec<_>>(), lines);
        assert_eq!(report.count(), (2, 1));
    }
}
