//! A lock of ours.

pub async fn run(url: String) {
    let locker = leasehold::Locker::connect(&url).await.unwrap();
    let guard = locker.lock("invoice:42").await.unwrap();
    guard.release().await.unwrap();
}
