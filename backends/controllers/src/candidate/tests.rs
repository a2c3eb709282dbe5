use std::{
    future::pending,
    sync::{Arc, Mutex},
};

use k8s_openapi::api::coordination::v1::LeaseSpec;

use super::*;

/// A lease in memory, with optimistic concurrency and scripted faults.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    lease: Option<Lease>,
    version: u64,
    fault: Fault,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Fault {
    #[default]
    None,
    /// All requests fail.
    Refuses,
    /// No request is answered.
    Hangs,
    /// Writes are applied, and not answered.
    LosesAnswers,
}

impl Memory {
    fn fault(&self, fault: Fault) {
        self.0.lock().unwrap().fault = fault;
    }

    fn spec(&self) -> LeaseSpec {
        self.0.lock().unwrap().lease.clone().unwrap().spec.unwrap()
    }

    fn edit(&self, edit: impl FnOnce(&mut Option<Lease>)) {
        let mut inner = self.0.lock().unwrap();
        edit(&mut inner.lease);
        inner.version += 1;
        let version = inner.version.to_string();
        if let Some(lease) = &mut inner.lease {
            lease.metadata.resource_version = Some(version);
        }
    }

    async fn faulty(&self, losing: bool) -> Result<(), RequestError> {
        let fault = self.0.lock().unwrap().fault;
        match fault {
            Fault::Refuses => Err(RequestError::Unreachable("the apiserver is away".to_owned())),
            Fault::Hangs => pending().await,
            Fault::LosesAnswers if losing => pending().await,
            _ => Ok(()),
        }
    }
}

impl Store for Memory {
    async fn read(&self) -> Result<Option<Lease>, RequestError> {
        self.faulty(false).await?;
        Ok(self.0.lock().unwrap().lease.clone())
    }

    async fn write(&self, lease: Lease) -> Result<Lease, RequestError> {
        self.faulty(false).await?;
        let current = self.0.lock().unwrap().lease.clone().map(|lease| lease.metadata.resource_version);
        if current.unwrap_or_default() != lease.metadata.resource_version {
            return Err(RequestError::Refused {
                code: 409,
                message: "the object has been modified".to_owned(),
            });
        }
        self.edit(|stored| *stored = Some(lease));
        self.faulty(true).await?;
        Ok(self.0.lock().unwrap().lease.clone().unwrap())
    }
}

fn candidate(memory: &Memory, identity: &str) -> Candidate<Memory> {
    let report = ControllersReport::new(["sync"], "shop/quota", identity).unwrap();
    Candidate::new(memory.clone(), Timing::default(), report)
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn one_of_two_obtains_the_lease_and_keeps_it() {
    let memory = Memory::default();
    let (mut a, mut b) = (candidate(&memory, "a"), candidate(&memory, "b"));
    let mut held = a.acquire().await;
    assert_eq!((held.transitions, a.report.leader().as_deref()), (0, Some("a")));
    tokio::select! {
        lost = a.keep(&mut held) => panic!("{lost:?}"),
        _ = b.acquire() => panic!("two leaders"),
        () = sleep(600 * SECOND) => {}
    }
    assert_eq!(b.report.leader().as_deref(), Some("a"));
    assert!(held.renewed.elapsed() <= 2 * SECOND, "renewed all the time");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_not_renewed_is_lost_before_another_obtains_it() {
    for fault in [Fault::Refuses, Fault::Hangs] {
        let (memory, other_side) = (Memory::default(), Memory::default());
        let (mut a, mut b) = (candidate(&memory, "a"), candidate(&other_side, "b"));
        let mut held = a.acquire().await;
        let began = Instant::now();
        // Only the leader is cut off.
        other_side.edit(|lease| *lease = memory.0.lock().unwrap().lease.clone());
        memory.fault(fault);
        let lost = async { (a.keep(&mut held).await, began.elapsed()) };
        let obtained = async { (b.acquire().await, began.elapsed()) };
        let ((lost, lost_after), (obtained, obtained_after)) = tokio::join!(lost, obtained);
        assert!(matches!(&lost, Lost::Late(Some(text)) if text.contains("the apiserver")), "{lost:?}");
        assert_eq!(lost_after.as_secs(), 10);
        assert!((15..=20).contains(&obtained_after.as_secs()), "{obtained_after:?}");
        assert_eq!(obtained.transitions, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn short_failures_lose_nothing() {
    let memory = Memory::default();
    let mut a = candidate(&memory, "a");
    let mut held = a.acquire().await;
    for fault in [Fault::Refuses, Fault::Hangs, Fault::LosesAnswers] {
        let faults = async {
            memory.fault(fault);
            sleep(6 * SECOND).await;
            memory.fault(Fault::None);
            sleep(20 * SECOND).await;
        };
        tokio::select! {
            lost = a.keep(&mut held) => panic!("{lost:?}"),
            () = faults => {}
        }
    }
    assert_eq!(memory.spec().lease_transitions, Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_another_has_is_lost_at_once() {
    let holder = |holder: &str| {
        let holder = Some(holder.to_owned());
        move |lease: &mut Option<Lease>| {
            lease.as_mut().unwrap().spec.as_mut().unwrap().holder_identity = holder;
        }
    };
    for (expected, edit) in [
        (Some("b"), Box::new(holder("b")) as Box<dyn FnOnce(&mut Option<Lease>)>),
        (None, Box::new(holder(""))),
        (None, Box::new(|lease: &mut Option<Lease>| *lease = None)),
    ] {
        let memory = Memory::default();
        let mut a = candidate(&memory, "a");
        let mut held = a.acquire().await;
        memory.edit(edit);
        let began = Instant::now();
        assert_eq!(a.keep(&mut held).await, Lost::Taken(expected.map(str::to_owned)));
        assert_eq!(began.elapsed(), 2 * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_tried_again() {
    let memory = Memory::default();
    let (mut a, mut b) = (candidate(&memory, "a"), candidate(&memory, "b"));
    // Both read that there is no lease, and one of the two creations fails.
    let (found, now) = (memory.read().await.unwrap(), Instant::now());
    let [first, second] =
        [&mut a, &mut b].map(|one| one.election.claim(found.as_ref(), now, Timestamp::now()).unwrap());
    memory.write(first).await.unwrap();
    assert_eq!(memory.write(second).await.unwrap_err().code(), Some(409));
    assert_eq!(a.acquire().await.transitions, 1);
    timeout(5 * SECOND, b.acquire()).await.unwrap_err();
    assert_eq!(b.report.leader().as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn two_terms_of_a_replica_differ_in_their_transitions() {
    let memory = Memory::default();
    let mut a = candidate(&memory, "a");
    let mut held = a.acquire().await;
    memory.fault(Fault::Refuses);
    assert!(matches!(a.keep(&mut held).await, Lost::Late(_)));
    memory.fault(Fault::None);
    assert_eq!((held.transitions, a.acquire().await.transitions), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_obtained_at_the_next_attempt() {
    let memory = Memory::default();
    let (mut a, mut b) = (candidate(&memory, "a"), candidate(&memory, "b"));
    a.acquire().await;
    timeout(5 * SECOND, b.acquire()).await.unwrap_err();
    a.release().await;
    assert_eq!((memory.spec().holder_identity.as_deref(), a.report.leader()), (Some(""), None));
    let began = Instant::now();
    assert_eq!(b.acquire().await.transitions, 1);
    assert!(began.elapsed() <= 5 * SECOND);
    a.release().await;
    assert_eq!(memory.spec().holder_identity.as_deref(), Some("b"), "that of another is not released");
}

#[tokio::test(start_paused = true)]
async fn a_release_waits_for_no_apiserver() {
    let memory = Memory::default();
    let mut a = candidate(&memory, "a");
    a.acquire().await;
    memory.fault(Fault::Hangs);
    let began = Instant::now();
    a.release().await;
    assert_eq!(began.elapsed(), 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_not_heard_of_is_not_reported() {
    let memory = Memory::default();
    let (mut a, mut b) = (candidate(&memory, "a"), candidate(&memory, "b"));
    a.acquire().await;
    timeout(5 * SECOND, b.acquire()).await.unwrap_err();
    assert_eq!(b.report.leader().as_deref(), Some("a"));
    memory.fault(Fault::Refuses);
    timeout(30 * SECOND, b.acquire()).await.unwrap_err();
    assert_eq!(b.report.leader(), None);
}
