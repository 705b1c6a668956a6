//! tokio alone.

pub async fn run(url: String) {
    let _ = url;
}
