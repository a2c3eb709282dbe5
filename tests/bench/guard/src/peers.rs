//! kube-scheduler and three backends, on their own thread.

use std::{
    net::SocketAddr,
    sync::{Arc, mpsc},
    thread,
};

use tokio::{
    net::TcpListener,
    runtime::Builder,
    sync::{Barrier, mpsc as commands, oneshot},
};

use self::{backend::serve, client::Client};
use crate::subject::Sleep;

mod backend;
mod client;

/// How many backends there are.
pub const BACKENDS: usize = 3;

/// The thread of the peers, which ends when this is dropped.
#[derive(Debug)]
pub struct Peers {
    backends: [SocketAddr; BACKENDS],
    commands: commands::UnboundedSender<Command>,
}

/// A call in progress.
#[derive(Debug)]
pub struct Turn {
    written: mpsc::Receiver<()>,
    /// Ready when every backend has its whole request.
    pub asked: oneshot::Receiver<()>,
    /// Lets the backends answer.
    pub answer: Release,
    /// Ready when kube-scheduler has its whole answer.
    pub answered: oneshot::Receiver<()>,
}

/// The backends' answers, held back.
#[derive(Debug)]
pub struct Release {
    go: oneshot::Sender<()>,
    gone: mpsc::Receiver<()>,
}

#[derive(Debug)]
enum Command {
    Connect(SocketAddr),
    Ask(Ask),
}

/// The other ends of a [`Turn`].
#[derive(Debug)]
struct Ask {
    path: &'static str,
    body: Vec<u8>,
    written: mpsc::Sender<()>,
    asked: oneshot::Sender<()>,
    go: oneshot::Receiver<()>,
    gone: mpsc::Sender<()>,
    answered: oneshot::Sender<()>,
}

/// Where the backends synchronize before and after they answer.
#[derive(Debug)]
struct Meeting {
    /// All backends have a request.
    asked: Barrier,
    /// All backends may answer.
    go: Barrier,
    /// All backends have answered.
    gone: Barrier,
}

impl Peers {
    /// Starts the thread. The backends answer calls with this many nodes. A gateway in this process reports when it
    /// sleeps, and the peers wait for it.
    pub fn start(nodes: usize, gateway: Option<Arc<Sleep>>) -> Self {
        let (commands, received) = commands::unbounded_channel();
        let (send, addresses) = mpsc::channel();
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
            runtime.block_on(play((nodes, gateway), send, received));
        });
        let backends = addresses.recv().expect("the backends listen");
        Self { backends, commands }
    }

    /// Where the backends listen.
    pub fn backends(&self) -> [SocketAddr; BACKENDS] {
        self.backends
    }

    /// Connects kube-scheduler to the gateway.
    pub fn connect(&self, gateway: SocketAddr) {
        self.commands.send(Command::Connect(gateway)).expect("the peers live");
    }

    /// Begins a call.
    pub fn ask(&self, path: &'static str, body: Vec<u8>) -> Turn {
        let (written, is_written) = mpsc::channel();
        let (asked, are_asked) = oneshot::channel();
        let (go, may_go) = oneshot::channel();
        let (gone, are_gone) = mpsc::channel();
        let (answered, is_answered) = oneshot::channel();
        let ask = Ask { path, body, written, asked, go: may_go, gone, answered };
        self.commands.send(Command::Ask(ask)).expect("the peers live");
        let answer = Release { go, gone: are_gone };
        Turn { written: is_written, asked: are_asked, answer, answered: is_answered }
    }
}

impl Turn {
    /// Waits until the request is written. Only for one that fits into a socket's buffer.
    pub fn written(&self) {
        self.written.recv().expect("the peers live");
    }
}

impl Release {
    /// Lets the backends answer, and waits until all answers are written.
    pub fn release(self) {
        self.go.send(()).expect("the peers live");
        self.gone.recv().expect("the peers live");
    }
}

async fn play(
    (nodes, gateway): (usize, Option<Arc<Sleep>>),
    addresses: mpsc::Sender<[SocketAddr; BACKENDS]>,
    mut commands: commands::UnboundedReceiver<Command>,
) {
    let everybody = || Barrier::new(BACKENDS + 1);
    let meeting = Arc::new(Meeting { asked: everybody(), go: everybody(), gone: everybody() });
    let mut backends = [SocketAddr::from(([127, 0, 0, 1], 0)); BACKENDS];
    for (at, address) in backends.iter_mut().enumerate() {
        let listener = TcpListener::bind(*address).await.expect("there is a free port");
        *address = listener.local_addr().expect("it is bound");
        tokio::spawn(serve(listener, (at, nodes), Arc::clone(&meeting)));
    }
    addresses.send(backends).expect("somebody started this");
    let mut client = None;
    while let Some(command) = commands.recv().await {
        match command {
            Command::Connect(address) => client = Some(Client::connect(address).await),
            Command::Ask(ask) => {
                let client = client.as_mut().expect("it is connected first");
                ask.play(client, &meeting, gateway.as_deref()).await;
            }
        }
    }
}

impl Ask {
    async fn play(self, client: &mut Client, meeting: &Meeting, gateway: Option<&Sleep>) {
        let Self { path, body, written, asked, go, gone, answered } = self;
        // The receiver is gone if the body is large, or if the test has failed.
        let write = async {
            client.write(path, &body).await;
            let _ = written.send(());
        };
        tokio::join!(write, meeting.asked.wait());
        asleep(gateway).await;
        let _ = asked.send(());
        let _ = go.await;
        meeting.go.wait().await;
        meeting.gone.wait().await;
        let _ = gone.send(());
        client.read().await;
        asleep(gateway).await;
        let _ = answered.send(());
    }
}

async fn asleep(gateway: Option<&Sleep>) {
    if let Some(gateway) = gateway {
        gateway.begun().await;
    }
}
