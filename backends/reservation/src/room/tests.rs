//! The arithmetic against a simple reference: whole numbers of CPUs, and lists of which pod has what.

use extender_policy_sdk::OwnerReference;
use proptest::{collection::vec, prelude::*};
use serde_json::json;

use super::*;
use crate::{affinity::Admission, amounts::counted, object::Terms, owners::Owners};

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
        allocate: AllocatePolicy::Restricted,
        ports: Vec::new(),
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
    assert_eq!(all[0].part(&pod("shop", "u-2", 1), at(0)), None);
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

fn aligned(mut reservation: Reservation) -> Reservation {
    reservation.terms.as_mut().unwrap().allocate = AllocatePolicy::Aligned;
    reservation
}

/// What is held against a pod while these pods are on the node, as the gateway adds it up.
fn held_with(reservations: &[Reservation], pod: &Asking<'_>, counted: &[(String, i64)]) -> i64 {
    let used = |uid: &str| counted.iter().find(|(known, _)| known == uid).map_or(0, |(_, used)| *used);
    let left = |kept: &Kept<'_>| {
        let used = kept.users.iter().map(|(uid, part)| part.milli_cpu.min(used(uid))).sum::<i64>();
        (kept.resources.milli_cpu - used).max(0)
    };
    held(reservations, Some(pod), at(0)).kept.iter().map(left).sum()
}

#[test]
fn what_an_owner_leaves_is_held_at_the_same_moment() {
    let mut all = [reservation("a", 4, "shop", false, 100)];
    all[0].claimed(claim("u-1", 3, 0));
    let bound = all[0].room.retaining(|claim| {
        claim.bound = true;
        true
    });
    all[0].replaced(bound, at(0));
    let stranger = pod("else", "s", 1);
    assert_eq!(held_with(&all, &stranger, &[("u-1".to_owned(), 3)]), 1);
    assert_eq!(held_with(&all, &stranger, &[("u-1".to_owned(), 1)]), 3, "it was made smaller");
    assert_eq!(held_with(&all, &stranger, &[]), 4, "it has ended, and the claim is still there");
    assert_eq!(held_with(&all, &pod("shop", "u-2", 1), &[]), 0, "the next owner fits in what is left");
}

#[test]
fn an_owner_takes_what_is_left_and_the_rest_from_the_node() {
    let mut all = [aligned(reservation("a", 4, "shop", false, 100))];
    let large = pod("shop", "u-1", 6);
    let part = |all: &[Reservation; 1], pod: &Asking<'_>| all[0].part(pod, at(0)).map(|part| part.milli_cpu);
    assert_eq!((part(&all, &large), held_with(&all, &large, &[])), (Some(4), 0));
    all[0].claimed(claim("u-2", 3, 0));
    assert_eq!(
        (part(&all, &large), held_with(&all, &large, &[])),
        (Some(1), 3),
        "the other may not count yet"
    );
    assert_eq!(held_with(&all, &large, &[("u-2".to_owned(), 3)]), 0);
    all[0].claimed(claim("u-3", 1, 0));
    assert_eq!((part(&all, &large), held_with(&all, &large, &[])), (None, 4));
    // Resources that the reservation does not have come from the node.
    let gpu = Resources { others: [("gpu".to_owned(), 1)].into(), ..cpus(4) };
    let with_gpu = Asking { requests: gpu, ..pod("shop", "u-4", 4) };
    for allocate in [AllocatePolicy::Aligned, AllocatePolicy::Restricted] {
        let mut one = reservation("a", 4, "shop", true, 100);
        one.terms.as_mut().unwrap().allocate = allocate;
        assert_eq!(one.part(&with_gpu, at(0)), Some(cpus(4)), "{allocate:?}");
        let alone = Asking { requests: minus(&with_gpu.requests, &cpus(4)), ..with_gpu.clone() };
        assert_eq!(one.part(&alone, at(0)), None, "{allocate:?}: it takes nothing of it");
    }
    assert_eq!(reservation("a", 4, "shop", true, 100).part(&large, at(0)), None, "restricted");
}

#[test]
fn ports_are_kept_from_all_but_the_owner() {
    let ports = |port: u64| {
        crate::ports::of_template(&json!({"containers": [{"ports": [{"hostPort": port}]}]})).unwrap()
    };
    let mut all = [reservation("a", 4, "shop", true, 100)];
    all[0].terms.as_mut().unwrap().ports = ports(80);
    let keeps =
        |all: &[Reservation; 1], pod: &Asking<'_>, port| keeps_port(all, Some(pod), &ports(port), at(0));
    let (owner, stranger) = (pod("shop", "u-1", 1), pod("else", "s", 1));
    assert!(keeps(&all, &stranger, 80) && !keeps(&all, &stranger, 81) && !keeps(&all, &owner, 80));
    assert!(keeps_port(&all, None, &ports(80), at(0)), "a placeholder owns nothing");
    assert!(!keeps_port(&all, Some(&stranger), &ports(80), at(100)), "it is over");
    all[0].claimed(Claim { bound: true, ..claim("u-1", 1, 0) });
    assert!(!keeps(&all, &stranger, 80), "its owner has it, and kube-scheduler looks after that");
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

/// One thing that happens on a node of which a gateway looks at every pod.
#[derive(Clone, Debug)]
enum Event {
    /// A pod asks, and counts from then on if there is room for it.
    Ask { namespace: usize, requests: i64 },
    /// The earliest pod that counts and is not bound gets its claim, if it owns a reservation, and is bound.
    Bind,
    /// The controller sees all pods.
    Confirm,
    /// A pod ends.
    End { pod: usize },
    /// The controller removes the claims of pods that have ended.
    Free,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        5 => (0..3_usize, 1..7_i64).prop_map(|(namespace, requests)| Event::Ask { namespace, requests }),
        4 => Just(Event::Bind),
        1 => Just(Event::Confirm),
        2 => (0..20_usize).prop_map(|pod| Event::End { pod }),
        1 => Just(Event::Free),
    ]
}

#[derive(Debug)]
struct OneNode {
    size: i64,
    all: Vec<Reservation>,
    /// UIDs and requests of those that count, and those of them that are not bound, with what they were promised.
    counted: Vec<(String, i64)>,
    waiting: Vec<(String, usize, i64, Option<Resources>)>,
    asked: usize,
}

impl OneNode {
    fn used(&self) -> i64 {
        self.counted.iter().map(|(_, used)| used).sum()
    }

    fn has_room(&self, pod: &Asking<'_>) -> bool {
        self.used() + held_with(&self.all, pod, &self.counted) + pod.requests.milli_cpu <= self.size
    }

    fn ask(&mut self, namespace: usize, requests: i64) {
        let uid = format!("u{}", self.asked);
        self.asked += 1;
        let asking = pod(NAMESPACES[namespace], &uid, requests);
        if self.has_room(&asking) {
            let promised = chosen(&self.all, &asking, at(0)).and_then(|own| own.part_for(&asking, at(0)));
            self.counted.push((uid.clone(), requests));
            self.waiting.push((uid, namespace, requests, promised));
        }
    }

    fn bind(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let (uid, namespace, requests, promised) = self.waiting.remove(0);
        let asking = pod(NAMESPACES[namespace], &uid, requests);
        let own = chosen(&self.all, &asking, at(0)).map(|own| own.name.clone());
        let Some(promised) = promised else {
            // It was let in without a reservation.
            return;
        };
        let own = self.all.iter_mut().find(|reservation| Some(&reservation.name) == own.as_ref());
        let part = own.and_then(|own| {
            let part = own.part(&asking, at(0)).filter(|part| fits(&promised, part))?;
            own.claimed(claim(&uid, part.milli_cpu, 0));
            Some(())
        });
        if part.is_none() {
            self.counted.retain(|(known, _)| *known != uid);
        }
    }

    fn change_claims(&mut self, mut keep: impl FnMut(&mut Claim) -> bool) {
        for reservation in &mut self.all {
            let room = reservation.room.retaining(&mut keep);
            reservation.replaced(room, at(0));
        }
    }

    fn happens(&mut self, event: &Event) {
        let (counted, waiting) = (self.counted.clone(), self.waiting.clone());
        let counts = |uid: &str| counted.iter().any(|(known, _)| known == uid);
        let waits = |uid: &str| waiting.iter().any(|(known, ..)| known == uid);
        match *event {
            Event::Ask { namespace, requests } => self.ask(namespace, requests),
            Event::Bind => self.bind(),
            Event::Confirm => self.change_claims(|claim| {
                claim.bound |= counts(&claim.uid) && !waits(&claim.uid);
                true
            }),
            Event::End { pod } => {
                let uid = format!("u{pod}");
                if !waits(&uid) {
                    self.counted.retain(|(known, _)| *known != uid);
                }
            }
            Event::Free => self.change_claims(|claim| counts(&claim.uid)),
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        prop_assert!(self.used() <= self.size, "no room is given twice: {self:?}");
        if !self.waiting.is_empty() {
            return Ok(());
        }
        let stranger = pod("else", "s", 1);
        let held = held_with(&self.all, &stranger, &self.counted);
        prop_assert!(self.used() + held <= self.size, "what is reserved is there: {self:?}");
        for reservation in &self.all {
            let namespace = &NAMESPACES[usize::from(reservation.name.ends_with(['1', '3']))];
            let left = reservation.room.left().milli_cpu;
            let owner = pod(namespace, "next", left);
            let is_open = left > 0 && reservation.part(&owner, at(0)).is_some();
            let is_chosen = chosen(&self.all, &owner, at(0)).is_some_and(|own| own.name == reservation.name);
            prop_assert!(
                !(is_open && is_chosen) || self.has_room(&owner),
                "an owner gets what is left: {self:?}"
            );
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn room_is_there_for_owners_and_given_once(
        sizes in vec((1..6_i64, any::<bool>(), any::<bool>()), 1..4),
        more in 0..5_i64,
        events in vec(event(), 0..40),
    ) {
        let size = more + sizes.iter().map(|(size, ..)| size).sum::<i64>();
        let all = (0..).zip(sizes).map(|(number, (size, once, is_aligned))| {
            let one = reservation(&format!("r{number}"), size, NAMESPACES[number % 2], once, 100);
            if is_aligned { aligned(one) } else { one }
        });
        let mut node = OneNode { size, all: all.collect(), counted: vec![], waiting: vec![], asked: 0 };
        for event in events {
            node.happens(&event);
            node.check()?;
        }
    }
}
