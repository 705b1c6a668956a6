//! The shapes in which programs use tokio: they differ in how many threads a reply passes through.

use std::future::Future;

use tokio::runtime::{Builder, Runtime};

const WORKERS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    CurrentThread,
    /// On two workers, the work in a spawned task, as a request handler is.
    Worker,
    /// On two workers, the work in `block_on`, as a plain `#[tokio::main]` has it.
    BlockOn,
}

impl Shape {
    pub const ALL: [Self; 3] = [Self::CurrentThread, Self::Worker, Self::BlockOn];

    pub fn name(self) -> &'static str {
        match self {
            Self::CurrentThread => "current_thread",
            Self::Worker => "multi_thread, on a worker",
            Self::BlockOn => "multi_thread, in block_on",
        }
    }
}

/// A runtime, and the place in it where work is done.
pub struct Stage {
    shape: Shape,
    runtime: Runtime,
}

impl Stage {
    pub fn new(shape: Shape) -> Self {
        let mut builder = match shape {
            Shape::CurrentThread => Builder::new_current_thread(),
            Shape::Worker | Shape::BlockOn => Builder::new_multi_thread(),
        };
        let runtime = builder.worker_threads(WORKERS).enable_all().build();
        Self { shape, runtime: runtime.expect("a runtime starts") }
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        self.runtime.block_on(async {
            match self.shape {
                Shape::Worker => tokio::spawn(work).await.expect("the work does not panic"),
                Shape::CurrentThread | Shape::BlockOn => work.await,
            }
        })
    }
}
