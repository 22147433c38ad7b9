//! A database within the program (redb), which has one transaction at a time that writes. Main books an invoice
//! every 20 ms. When the file of the argument appears, the thread "year-end" computes in its transaction.
#[path = "../beat.rs"]
mod beat;

use redb::backends::InMemoryBackend;
use redb::{Database, TableDefinition};
use std::sync::Arc;
use std::time::Duration;

const AMOUNTS: TableDefinition<u64, u64> = TableDefinition::new("amounts");

#[inline(never)]
fn sum_invoices() -> u64 {
    beat::compute(Duration::from_millis(1200))
}

fn write(ledger: &Database, amount: impl FnOnce() -> u64) {
    let transaction = ledger.begin_write().unwrap();
    {
        let mut amounts = transaction.open_table(AMOUNTS).unwrap();
        amounts.insert(7, amount()).unwrap();
    }
    transaction.commit().unwrap();
}

#[inline(never)]
fn close_year(ledger: &Database) {
    write(ledger, sum_invoices);
}

#[inline(never)]
fn book_invoice(ledger: &Database) {
    write(ledger, || 108);
}

fn main() {
    let flag = std::env::args().nth(1).unwrap();
    let ledger = Database::builder().create_with_backend(InMemoryBackend::new()).unwrap();
    let ledger = Arc::new(ledger);
    let same = Arc::clone(&ledger);
    let closer = beat::start("year-end", move || loop {
        if beat::told(&flag) {
            close_year(&same);
        }
        std::thread::sleep(Duration::from_millis(10));
    });
    println!("{{\"victim\": {}, \"year-end\": {closer}}}", beat::thread_id());
    beat::rhythm(|| book_invoice(&ledger));
}
