//! A connection whose notifications and notices are kept. They come in the order in which the server sent them,
//! so that a notification that is not there before a later one was never sent.

use std::future::poll_fn;

use tokio::sync::{Mutex, mpsc};
use tokio_postgres::{AsyncMessage, Client, NoTls};

use super::eventually::{PATIENCE, within};
use super::runtime::servers;

pub struct Listener {
    pub client: Client,
    inbox: Mutex<mpsc::UnboundedReceiver<AsyncMessage>>,
}

impl Listener {
    pub async fn connect(url: &str) -> Listener {
        let url = url.to_string();
        let connecting = servers().spawn(async move { tokio_postgres::connect(&url, NoTls).await });
        let (client, mut connection) =
            connecting.await.expect("connecting does not panic").unwrap_or_else(|error| panic!("{error}"));
        let (outbox, inbox) = mpsc::unbounded_channel();
        servers().spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                // A test that asks for no more has ended.
                let _ = outbox.send(message);
            }
        });
        Listener { client, inbox: Mutex::new(inbox) }
    }

    pub async fn on(url: &str, channel: &str) -> Listener {
        let listener = Listener::connect(url).await;
        listener.client.batch_execute(&format!("LISTEN {channel}")).await.expect("anyone may listen");
        listener
    }

    async fn next(&self) -> AsyncMessage {
        let mut inbox = self.inbox.lock().await;
        within(PATIENCE, "a message of the server", inbox.recv()).await.expect("the connection lives")
    }

    /// The payload of the next notification.
    pub async fn notified(&self) -> String {
        loop {
            if let AsyncMessage::Notification(notification) = self.next().await {
                return notification.payload().to_string();
            }
        }
    }

    /// SQLSTATE and text of the next notice.
    pub async fn noticed(&self) -> (String, String) {
        loop {
            if let AsyncMessage::Notice(notice) = self.next().await {
                return (notice.code().code().to_string(), notice.message().to_string());
            }
        }
    }
}
