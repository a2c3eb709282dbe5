//! Looks for a difference in generated cases.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    fmt,
};

use proptest::{
    prelude::TestCaseError,
    test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner},
};
use tokio::runtime::{Builder, Runtime};

use crate::{
    case::Case,
    compare, generate,
    situation::{Coverage, Scene},
    subject::Subject,
};

/// How far a difference is shrunk: the attempts, each a call to the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shrinking {
    /// As far as possible.
    Thorough,
    /// Not at all: finding one is enough.
    None,
}

/// A case with a difference.
#[derive(Debug)]
pub struct Difference {
    /// How many cases were generated, this one included.
    pub after: u32,
    /// The case.
    pub case: Case,
    /// The difference.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { after, case, what } = self;
        write!(f, "difference found after {after} cases\n{what}\n{case:#?}")
    }
}

/// Runs cases in the reference and in the gateway.
pub struct Search {
    runtime: Runtime,
    subject: RefCell<Subject>,
    coverage: RefCell<Coverage>,
}

impl Search {
    /// Starts what cases need.
    pub fn start() -> Self {
        // One thread: the gateway's own calls run on such a runtime.
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime can be started");
        let subject = RefCell::new(runtime.block_on(Subject::start()));
        Self { runtime, subject, coverage: RefCell::default() }
    }

    /// The situations of the cases so far.
    pub fn coverage(&self) -> Coverage {
        self.coverage.borrow().clone()
    }

    /// The differences of a case.
    pub fn differences(&self, case: &Case) -> Vec<String> {
        let expected = compare::expected(case);
        let mut subject = self.subject.borrow_mut();
        let observed = self.runtime.block_on(subject.ask(case, &expected));
        self.coverage.borrow_mut().note(&Scene { case, expected: &expected, observed: &observed });
        compare::differences(case, &expected, &observed)
    }

    /// The first difference in this many cases.
    ///
    /// # Errors
    /// The difference.
    pub fn search(&self, cases: u32, (seed, shrinking): (u64, Shrinking)) -> Result<(), Box<Difference>> {
        let attempts = match shrinking {
            Shrinking::Thorough => 4096,
            Shrinking::None => 0,
        };
        let config =
            Config { cases, max_shrink_iters: attempts, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, random(seed));
        let found = Cell::new(false);
        let tried = Cell::new(0);
        let ended = runner.run(&generate::case(), |case| {
            if !found.get() {
                tried.set(tried.get() + 1);
            }
            let what: BTreeSet<String> = self.differences(&case).into_iter().collect();
            if what.is_empty() {
                return Ok(());
            }
            let what = what.into_iter().collect::<Vec<_>>().join("\n");
            found.set(true);
            Err(TestCaseError::fail(what))
        });
        match ended {
            Ok(()) => Ok(()),
            Err(TestError::Fail(what, case)) => {
                Err(Box::new(Difference { after: tried.get(), case, what: what.to_string() }))
            }
            Err(TestError::Abort(why)) => unreachable!("no case is ever rejected: {why}"),
        }
    }
}

fn random(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}
