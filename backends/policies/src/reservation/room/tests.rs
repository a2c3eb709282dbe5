//! The arithmetic against a simple reference: whole numbers of CPUs, and lists of which pod has what.

use extender_policy_sdk::OwnerReference;
use proptest::{collection::vec, prelude::*};
use serde_json::json;

use super::*;
use crate::reservation::{affinity::Admission, amounts::counted, object::Terms, owners::Owners};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn cpus(cpus: i64) -> Resources {
    Resources { milli_cpu: cpus, ..Resources::default() }
}

/// Owned by the pods of a namespace.
fn reservation(name: &str, allocatable: i64, namespace: &str, once: bool, expires: i64) -> Reservation {
    let rule = json!([{"labelSelector": {}, "namespaces": [namespace]}]);
    let terms = Terms {
        owners: Owners::new(serde_json::from_value(rule).unwrap()).unwrap(),
        expires: Some(at(expires)),
        once,
        namespace: "default".to_owned(),
        admission: Admission::default(),
    };
    Reservation {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        version: 1,
        terms: Ok(terms),
        status: serde_json::from_value(json!({"phase": "Available", "nodeName": "a"})).unwrap(),
        room: Room::new(cpus(allocatable), Vec::new()),
        pending: [].into(),
    }
}

fn pod<'p>(namespace: &'p str, uid: &'p str, requests: i64) -> Asking<'p> {
    let controller: Option<&OwnerReference> = None;
    Asking { uid, namespace, controller, requests: cpus(requests), ..Asking::default() }
}

fn claim(uid: &str, requests: i64, since: i64) -> Claim {
    let (namespace, name) = ("shop".to_owned(), uid.to_owned());
    Claim { namespace, name, uid: uid.to_owned(), requests: cpus(requests), since: at(since), bound: false }
}

impl Reservation {
    fn claimed(&mut self, claim: Claim) {
        self.add_claim(claim);
    }

    fn replaced(&mut self, room: Room, now: Timestamp) {
        (self.status.phase, self.room) = (self.phase_with(&room, now), room);
    }
}

fn held_against(reservations: &[Reservation], pod: &Asking<'_>, now: i64) -> (i64, Vec<String>) {
    let held = held(reservations, Some(pod), at(now));
    (held.resources.milli_cpu, held.by.into_iter().map(str::to_owned).collect())
}

#[test]
fn the_first_reservation_that_fits_is_left_out_for_its_owner_alone() {
    let reservations = [
        reservation("a", 2, "shop", true, 100),
        reservation("b", 4, "shop", true, 100),
        reservation("c", 8, "mall", true, 100),
    ];
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (namespace, requests, expected) in [
        ("shop", 2, (12, names(&["b", "c"]))),
        ("shop", 3, (10, names(&["a", "c"]))),
        // Too large for any of them.
        ("shop", 5, (14, names(&["a", "b", "c"]))),
        ("mall", 8, (6, names(&["a", "b"]))),
        ("else", 1, (14, names(&["a", "b", "c"]))),
    ] {
        assert_eq!(
            held_against(&reservations, &pod(namespace, "u", requests), 0),
            expected,
            "{namespace} {requests}"
        );
    }
    assert_eq!(held(&reservations, None, at(0)).resources, cpus(14), "a placeholder owns nothing");
    assert_eq!(held_against(&reservations, &pod("shop", "u", 2), 100), (0, Vec::new()), "all are expired");
}

#[test]
fn a_claim_is_held_until_its_pod_was_seen() {
    let mut all = [reservation("a", 4, "shop", false, 100)];
    all[0].claimed(claim("u-1", 3, 0));
    let other = pod("else", "s", 1);
    assert_eq!(held_against(&all, &other, 0).0, 4);
    assert_eq!(held_against(&all, &pod("shop", "u-1", 3), 0).0, 0, "for itself it is free");
    assert_eq!(held_against(&all, &pod("shop", "u-2", 1), 0).0, 0, "a second owner fits");
    assert_eq!(held_against(&all, &pod("shop", "u-2", 2), 0).0, 4, "it does not fit");
    assert_eq!(held_against(&all, &other, 100).0, 3, "what is claimed outlasts the reservation");
    let room = all[0].room.retaining(|claim| {
        claim.bound = true;
        true
    });
    all[0].replaced(room, at(0));
    assert_eq!((held_against(&all, &other, 0).0, held_against(&all, &other, 100).0), (1, 0));
}

#[test]
fn the_first_owner_takes_a_reservation_for_one_whole() {
    let mut all = [reservation("a", 4, "shop", true, 100)];
    all[0].claimed(claim("u-1", 1, 0));
    assert_eq!(all[0].status.phase, Phase::Succeeded);
    assert!(!all[0].fits(&pod("shop", "u-2", 1), at(0)));
    assert_eq!(held_against(&all, &pod("shop", "u-2", 1), 0).0, 4, "it may open again");
    assert_eq!(held_against(&all, &pod("shop", "u-2", 1), 100).0, 1);
    // Again with a later time.
    all[0].claimed(claim("u-1", 1, 9));
    assert_eq!((all[0].room.claims().len(), all[0].room.claims()[0].since), (1, at(9)));

    let empty = all[0].room.retaining(|_| false);
    assert_eq!(all[0].phase_with(&empty, at(0)), Phase::Available);
    assert_eq!(all[0].phase_with(&empty, at(100)), Phase::Succeeded, "it is expired");
    let bound = all[0].room.retaining(|claim| {
        claim.bound = true;
        true
    });
    all[0].replaced(bound, at(0));
    assert_eq!(held_against(&all, &pod("else", "s", 1), 0).0, 0, "the rest is free");
    assert_eq!(all[0].phase_with(&empty, at(0)), Phase::Succeeded, "it was used");
}

#[test]
fn one_with_an_invalid_spec_keeps_only_what_is_claimed() {
    let mut all = [reservation("a", 4, "shop", false, 100)];
    all[0].claimed(claim("u-1", 3, 0));
    all[0].terms = Err("spec.owners has 0 rules".to_owned());
    assert_eq!(held_against(&all, &pod("shop", "u-2", 1), 0).0, 3);
    assert_eq!(held_against(&all, &pod("shop", "u-1", 3), 0).0, 0);
}

#[test]
fn amounts_that_are_too_large_do_not_overflow() {
    let mut all =
        [reservation("a", i64::MAX, "shop", false, 100), reservation("b", i64::MAX, "mall", false, 100)];
    assert_eq!(held_against(&all, &pod("else", "s", 1), 0).0, i64::MAX);
    all[0].claimed(claim("u-1", i64::MAX, 0));
    all[0].claimed(claim("u-2", i64::MAX, 0));
    assert_eq!(*all[0].room.left(), counted(&Resources::default()));
}

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    /// This pod asks for this much: if a reservation serves it, the claim is recorded.
    Claim {
        pod: usize,
        namespace: usize,
        requests: i64,
    },
    /// The controller sees the pod on the node.
    Seen {
        pod: usize,
    },
    /// The pod is gone, or was never bound.
    Gone {
        pod: usize,
    },
    Later {
        seconds: i64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..8_usize, 0..3_usize, 0..5_i64)
            .prop_map(|(pod, namespace, requests)| Step::Claim { pod, namespace, requests }),
        2 => (0..8_usize).prop_map(|pod| Step::Seen { pod }),
        2 => (0..8_usize).prop_map(|pod| Step::Gone { pod }),
        1 => (0..4_i64).prop_map(|seconds| Step::Later { seconds }),
    ]
}

const NAMESPACES: [&str; 3] = ["shop", "mall", "else"];

/// The same in whole numbers.
#[derive(Clone, Debug)]
struct Simple {
    size: i64,
    namespace: usize,
    once: bool,
    expires: i64,
    /// Pod, amount, seen.
    users: Vec<(usize, i64, bool)>,
    taken: bool,
}

impl Simple {
    fn left(&self) -> i64 {
        self.size - self.users.iter().map(|(_, amount, _)| amount).sum::<i64>()
    }

    fn has(&self, pod: usize) -> bool {
        self.users.iter().any(|(user, ..)| *user == pod)
    }

    fn gives(&self, namespace: usize, requests: i64, now: i64) -> bool {
        now < self.expires && !self.taken && namespace == self.namespace && requests <= self.left()
    }

    fn on_the_way(&self) -> i64 {
        self.users.iter().filter(|(.., seen)| !seen).map(|(_, amount, _)| amount).sum()
    }

    fn held(&self, now: i64) -> i64 {
        let waits = self.users.iter().any(|(.., seen)| !seen);
        let left = if now < self.expires && (!self.taken || waits) { self.left() } else { 0 };
        left + self.on_the_way()
    }

    fn gone(&mut self, pod: usize, now: i64) {
        let was_seen = self.users.iter().any(|(.., seen)| *seen);
        let before = self.users.len();
        self.users.retain(|(user, ..)| *user != pod);
        if self.users.len() < before && !was_seen && self.users.is_empty() && now < self.expires {
            self.taken = false;
        }
    }
}

/// A node with reservations, twice.
struct Both {
    real: Vec<Reservation>,
    simple: Vec<Simple>,
    now: i64,
}

impl Both {
    fn new(sizes: Vec<(i64, usize, bool, i64)>) -> Self {
        let simple = |(size, namespace, once, expires)| Simple {
            size,
            namespace,
            once,
            expires,
            users: Vec::new(),
            taken: false,
        };
        let simple: Vec<_> = sizes.into_iter().map(simple).collect();
        let real = simple.iter().enumerate().map(|(at, simple)| {
            let namespace = NAMESPACES[simple.namespace];
            reservation(&format!("r{at}"), simple.size, namespace, simple.once, simple.expires)
        });
        Self { real: real.collect(), simple, now: 0 }
    }

    fn expected(&self, pod: usize, namespace: usize, requests: i64) -> Option<usize> {
        let claimed = self.simple.iter().position(|simple| simple.has(pod));
        claimed.or_else(|| self.simple.iter().position(|simple| simple.gives(namespace, requests, self.now)))
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let now = at(self.now);
        match *step {
            Step::Claim { pod: number, namespace, requests } => {
                let uid = format!("u{number}");
                let asking = pod(NAMESPACES[namespace], &uid, requests);
                let expected = self.expected(number, namespace, requests);
                let real = chosen(&self.real, &asking, now).map(|chosen| chosen.name.clone());
                prop_assert_eq!(real, expected.map(|at| format!("r{at}")));
                let Some(at) = expected.filter(|at| !self.simple[*at].has(number)) else { return Ok(()) };
                self.real[at].claimed(claim(&uid, requests, self.now));
                self.simple[at].users.push((number, requests, false));
                self.simple[at].taken |= self.simple[at].once;
            }
            Step::Seen { pod } => {
                for (real, simple) in self.real.iter_mut().zip(&mut self.simple) {
                    let room = real.room.retaining(|claim| {
                        claim.bound |= claim.uid == format!("u{pod}");
                        true
                    });
                    real.replaced(room, now);
                    simple.users.iter_mut().for_each(|(user, _, seen)| *seen |= *user == pod);
                }
            }
            Step::Gone { pod } => {
                for (real, simple) in self.real.iter_mut().zip(&mut self.simple) {
                    let room = real.room.retaining(|claim| claim.uid != format!("u{pod}"));
                    real.replaced(room, now);
                    simple.gone(pod, self.now);
                }
            }
            Step::Later { seconds } => self.now += seconds,
        }
        Ok(())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for (real, simple) in self.real.iter().zip(&self.simple) {
            let (left, allocated) = (real.room.left().milli_cpu, real.room.allocated().milli_cpu);
            prop_assert_eq!((left, left + allocated), (simple.left(), simple.size), "nothing is given twice");
            let seen: i64 = simple.users.iter().filter(|(.., seen)| *seen).map(|(_, amount, _)| amount).sum();
            prop_assert!(real.held(at(self.now)).milli_cpu + seen <= simple.size);
        }
        for (namespace, pods) in [(0, 8), (1, 8), (2, 8)] {
            for number in 0..pods {
                for requests in [0, 1, 3] {
                    let uid = format!("u{number}");
                    let own = self.expected(number, namespace, requests);
                    let others = self.simple.iter().enumerate().filter(|(at, _)| Some(*at) != own);
                    let expected: i64 = others.map(|(_, simple)| simple.held(self.now)).sum();
                    let asking = pod(NAMESPACES[namespace], &uid, requests);
                    prop_assert_eq!(held_against(&self.real, &asking, self.now).0, expected);
                }
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn it_is_as_the_reference_says(
        sizes in vec((0..6_i64, 0..2_usize, any::<bool>(), 1..20_i64), 0..4),
        steps in vec(step(), 0..25),
    ) {
        let mut both = Both::new(sizes);
        both.check()?;
        for step in steps {
            both.step(&step)?;
            both.check()?;
        }
    }
}
