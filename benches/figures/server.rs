//! What a pair costs the server: all the CPU time of its process, reading and writing included.

use leasehold::Locker;
use tokio::task::JoinSet;

use super::blast::Blast;
use super::ours;
use super::renewal::cpu;
use super::runtimes::{Shape, Stage};
use super::wire::{Kind, Pen, Scripts};
use crate::support::RedisServer;

/// So many at once that the server's caches stay warm.
const TASKS: u32 = 64;
/// The least of these rounds counts: other work on the machine only adds.
const ROUNDS: u32 = 5;

/// With so many pairs of each kind, for each task and round.
pub fn run(pairs: u32) {
    println!("\nThe server's CPU a pair, in microseconds, {TASKS} tasks at once:\n");
    println!("{:<24} {:>6} {:>10}", "lease", "each", "over plain");
    let server = RedisServer::start();
    let (stage, url) = (Stage::new(Shape::CurrentThread), server.url());
    let locker = stage.run(async move { Locker::connect(&url).await }).expect("the server is up");
    let pen = Pen::new(&Scripts::load(&mut server.client()));
    let mut plain = Blast::new(server.address(), pen, (TASKS * pairs) as usize);
    let measure = |work: &mut dyn FnMut()| {
        let before = cpu(server.pid());
        work();
        (cpu(server.pid()) - before) * 1e6 / f64::from(TASKS * pairs)
    };
    let mut least = [f64::MAX; 3];
    for _ in 0..ROUNDS {
        let each = [
            measure(&mut || {
                plain.run();
            }),
            measure(&mut || crowd(&stage, &locker, Kind::Unfenced, pairs)),
            measure(&mut || crowd(&stage, &locker, Kind::Fenced, pairs)),
        ];
        least = std::array::from_fn(|place| least[place].min(each[place]));
    }
    for (name, each) in ["plain, without waiting", "unfenced", "fenced"].iter().zip(least) {
        println!("{name:<24} {each:>6.2} {:>10.2}", each / least[0]);
    }
}

fn crowd(stage: &Stage, locker: &Locker, kind: Kind, pairs: u32) {
    let locker = locker.clone();
    stage.run(async move { take_turns(&locker, kind, pairs).await });
}

async fn take_turns(locker: &Locker, kind: Kind, pairs: u32) {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let locker = locker.clone();
        tasks.spawn(async move {
            let name = format!("crowd:{task}");
            for _ in 0..pairs {
                ours::pair(&locker, kind, &name).await;
            }
        });
    }
    tasks.join_all().await;
}
