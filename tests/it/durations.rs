//! The longest and the shortest durations, wherever the public interface takes one: an error at most, never a panic or
//! an overflow.

use std::time::Duration;

use leasehold::limits::Rate;
use leasehold::once::Slot;
use leasehold::{Error, ErrorKind, Locker, Retry};
use leasehold_testing::{RedisServer, repository};

const LONGEST: Duration = Duration::MAX;

#[tokio::test]
async fn the_longest_duration_is_taken_or_refused_wherever_one_is_given() {
    let server = RedisServer::start();
    let builder = || Locker::builder().node(&*server.url());
    for builder in [
        builder().ttl(LONGEST),
        builder().command_timeout(LONGEST),
        builder().connect_timeout(LONGEST),
        builder().min_validity(LONGEST),
        builder().max_ttl(LONGEST),
    ] {
        if let Err(error) = builder.connect().await {
            assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
        }
    }

    let locker = builder().connect().await.unwrap();
    let request = || locker.lock("a");
    for refused in [
        request().ttl(LONGEST),
        request().min_validity(LONGEST),
        request().hold_at_least(LONGEST),
        request().lock_delay(LONGEST),
    ] {
        assert_eq!(refused.await.unwrap_err().kind(), ErrorKind::Misuse);
    }
    let guard = request().await.unwrap();
    // There is no replica.
    #[cfg(feature = "replicas")]
    assert_eq!(guard.replicated(1, LONGEST).await.unwrap(), 0);
    guard.release().await.unwrap();
    for granted in [
        request().wait_at_most(LONGEST),
        request().hold_at_most(LONGEST),
        request().retry(Retry::fixed(LONGEST).jitter(false)),
    ] {
        granted.await.unwrap().release().await.unwrap();
    }
    for name in ["waits", "waits in the queue"] {
        let holder = locker.lock(name).await.unwrap();
        let other = builder().connect().await.unwrap();
        let retry = Retry::fixed(LONGEST).jitter(false);
        let counted = if name == "waits" { retry.attempts(9) } else { retry };
        let asked = other.lock(name).retry(counted).wait_at_most(Duration::from_millis(30)).await;
        assert_eq!(asked.unwrap_err().kind(), ErrorKind::Contended);
        holder.release().await.unwrap();
    }

    let limit = locker.limit("limit", Rate::new(1, Duration::from_secs(1)));
    assert!(limit.reserve(1, LONGEST).await.is_err_and(|error| error.kind() == ErrorKind::Misuse));
    let done = locker.idempotent("done", b"digest", Duration::from_secs(60));
    let done = done.wait_at_most(LONGEST);
    done.run(async |_| Ok::<_, ()>(vec![])).await.unwrap();
    let latch = locker.latch("latch", 1);
    latch.count_down("party").await.unwrap();
    latch.wait(LONGEST).await.unwrap();
    locker.shutdown(LONGEST).await;
}

#[tokio::test]
async fn a_limit_below_a_millisecond_has_one_try_as_zero_has() {
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    for nanos in [0, 1, 1_000, 999_999].repeat(5) {
        let limit = Duration::from_nanos(nanos);
        let guard = locker.lock("free").wait_at_most(limit).await.unwrap();
        let refused = locker.lock("free").wait_at_most(limit).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Contended, "{limit:?}: {refused}");
        guard.release().await.unwrap();
    }
}

/// It once said "must be at least 10 ms, not 10 ms".
#[tokio::test]
async fn a_duration_that_is_refused_is_not_written_as_its_bound() {
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    let refused = locker.lock("a").ttl(Duration::from_nanos(9_999_999)).await.unwrap_err();
    assert!(refused.to_string().contains("at least 10 ms, not 9.999999 ms"), "{refused}");
}

/// The first range of durations behind `label` on the page of settings, such as "10 ms to 24 h".
fn range(page: &str, label: &str) -> [Duration; 2] {
    let line = page.split_once(label).and_then(|(_, behind)| behind.lines().next());
    let words: Vec<&str> = line.expect("the page has the label").split_whitespace().collect();
    let ranges = words.windows(5).filter(|words| words[2] == "to");
    let mut ranges = ranges
        .filter_map(|words| Some([duration(words[0], words[1])?, duration(words[3], words[4])?]));
    ranges.next().expect("a range is behind the label")
}

fn duration(number: &str, unit: &str) -> Option<Duration> {
    let seconds = match unit.trim_end_matches([',', ';']) {
        "ms" => return Some(Duration::from_millis(number.parse().ok()?)),
        "s" => 1,
        "h" => 60 * 60,
        "days" => 24 * 60 * 60,
        _ => return None,
    };
    Some(Duration::from_secs(number.parse::<u64>().ok()? * seconds))
}

#[tokio::test]
async fn what_is_accepted_is_what_the_page_of_settings_says() {
    let server = RedisServer::start();
    let url = server.url();
    let locker = Locker::connect(&url).await.unwrap();
    let page = std::fs::read_to_string(repository("docs/settings.md")).unwrap();
    let builder = || Locker::builder().node(&*url);
    let ms = Duration::from_millis(1);
    for (index, label) in [
        "| `ttl` | 10 s |",
        "| `command_timeout` |",
        "| `connect_timeout` |",
        "| `once(job, slot)` |",
        "| `idempotent(key, fingerprint, keep)` |",
        "| `latch(name, parties)`",
    ]
    .into_iter()
    .enumerate()
    {
        let [shortest, longest] = range(&page, label);
        for (time, is_accepted) in
            [(shortest - ms, false), (shortest, true), (longest, true), (longest + ms, false)]
        {
            let name = format!("{index} {time:?}");
            let done: Result<(), Error> = match index {
                0 => builder().ttl(time).connect_lazily().map(drop),
                1 => builder().command_timeout(time).connect_lazily().map(drop),
                2 => builder().connect_timeout(time).connect_lazily().map(drop),
                3 => {
                    let job = locker.once(&name, Slot::every(Duration::from_secs(60)));
                    job.at_least_once(time).run(async |_| Ok::<_, ()>(())).await.map(drop)
                }
                4 => {
                    let request = locker.idempotent(&name, b"digest", time);
                    request.run(async |_| Ok::<_, ()>(vec![])).await.map(drop)
                }
                _ => locker.latch(&name, 1).kept_for(time).count_down("party").await.map(drop),
            };
            let kind = done.as_ref().err().map(Error::kind);
            assert_eq!(kind, (!is_accepted).then_some(ErrorKind::Misuse), "{label} {time:?}");
        }
    }
}
