//! Last bytes, on a stream that takes few at a time.

use tokio::io::duplex;
use tokio::time::timeout;

use super::*;
use crate::support::STUCK;

#[tokio::test]
async fn what_the_driver_said_last_goes_out_whether_its_replies_come_before_it_has_let_go_or_then()
{
    const SAID: &[u8] = &[b'a'; 1024];
    for comes_before in [true, false] {
        let (stream, mut server) = duplex(16);
        let (mut ours, theirs) = pair().await.unwrap();
        let (tell, why) = oneshot::channel();
        drop(clock::spawn(carry(Box::new(stream), theirs, tell, STUCK)));
        if comes_before {
            server.write_all(b"reply").await.unwrap();
            ours.readable().await.unwrap();
        }
        ours.write_all(SAID).await.unwrap();
        // The driver drops its half, and leaves the reply unread.
        drop((ours, why));
        if !comes_before {
            server.write_all(b"reply").await.unwrap();
        }
        let mut heard = Vec::new();
        timeout(STUCK, server.read_to_end(&mut heard)).await.unwrap().unwrap();
        assert_eq!(heard.len(), SAID.len(), "the reply comes before: {comes_before}");
    }
}
