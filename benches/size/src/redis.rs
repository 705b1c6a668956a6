//! As much of a lock as redis-rs has: a key with an owner and a TTL, and a script that deletes it.

pub async fn run(url: String) {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut set = redis::cmd("SET");
    set.arg("invoice:42").arg("owner").arg("NX").arg("PX").arg(10_000);
    let _: redis::Value = set.query_async(&mut connection).await.unwrap();
    let script = redis::Script::new("return redis.call('DEL', KEYS[1])");
    let _: i64 = script.key("invoice:42").invoke_async(&mut connection).await.unwrap();
}
