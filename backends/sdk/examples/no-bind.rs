//! The bind of the same demo as [always-true.rs](always-true.rs), `NoBind`: it does not bind. There it is an error, with
//! which no pod is ever bound; here the policy declines, and the next binder binds: another policy, or the gateway.

use std::{future::ready, process::ExitCode};

use extender_policy_sdk::{Bind, BindAsk, BoxFuture, Info, Policy, Unanswered, run};

struct NoBind;

impl Policy for NoBind {
    fn info(&self) -> Info {
        Info::new("no-bind", "1").binds()
    }

    fn bind<'a>(&'a self, _: BindAsk<'a>) -> BoxFuture<'a, Result<Bind, Unanswered>> {
        Box::pin(ready(Ok(Bind::Declined("this policy does not bind".to_owned()))))
    }
}

fn main() -> ExitCode {
    run(NoBind)
}

#[cfg(test)]
mod tests {
    use extender_policy_sdk::{
        Bind,
        testing::{self, TestPod},
    };

    #[tokio::test]
    async fn it_leaves_the_pod_to_others() {
        let bound = testing::bind(super::NoBind, &TestPod::new("shop"), "a").await;
        assert_eq!(bound, Ok(Bind::Declined("this policy does not bind".to_owned())));
    }
}
