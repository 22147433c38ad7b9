//! Waits of databases, as they were recorded: what they are for, in which words, and whose function the
//! answer names.

use crate::programs::{CONDITION, EPOLL, FUTEX, POLL, SLEEP, lock, named, wait};
use unhitch_analysis::WaitClass;

/// PostgreSQL 15.18 of Debian 12.
#[test]
fn postgresql_names_its_locks() {
    let sleep = ["postgres!WaitEventSetWait", "postgres!WaitLatch", "postgres!ProcSleep"];
    let acquire = ["postgres+0x45d95c", "postgres!LockAcquireExtended"];
    let update = [
        "postgres!XactLockTableWait",
        "postgres!heap_update",
        "postgres+0x19ed8d",
        "postgres!standard_ExecutorRun",
        "postgres!PostgresMain",
    ];
    assert_eq!(
        lock(&[&EPOLL, &sleep, &acquire, &update]),
        named("row lock of PostgreSQL", "heap_update")
    );
    let open = ["postgres!LockRelationOid", "postgres!RangeVarGetRelidExtended"];
    assert_eq!(
        lock(&[&EPOLL, &sleep, &acquire, &open]),
        named("table lock of PostgreSQL", "RangeVarGetRelidExtended")
    );
    let lightweight = [
        "libc.so.6!__futex_abstimed_wait_common64",
        "libc.so.6!__new_sem_wait_slow64.constprop.0",
        "postgres!PGSemaphoreLock",
        "postgres!LWLockAcquire",
        "postgres!ProcSleep",
    ];
    assert_eq!(
        lock(&[&FUTEX, &lightweight, &acquire, &update]),
        named("lightweight lock of PostgreSQL", "heap_update")
    );
}

/// PostgreSQL 15.18: a unique key of INSERT … ON CONFLICT, and an index that is made beside others.
#[test]
fn a_wait_for_a_transaction_of_postgresql_is_no_row_lock() {
    let sleep = ["postgres!WaitEventSetWait", "postgres!WaitLatch", "postgres!ProcSleep"];
    let acquire = ["postgres+0x45d95c", "postgres!LockAcquireExtended"];
    let key = [
        "postgres!XactLockTableWait",
        "postgres+0x2fa518",
        "postgres!ExecCheckIndexConstraints",
        "postgres+0x32762c",
        "postgres!standard_ExecutorRun",
        "postgres!PortalRun",
        "postgres!PostgresMain",
    ];
    let index = [
        "postgres!VirtualXactLock",
        "postgres!WaitForOlderSnapshots",
        "postgres!DefineIndex",
        "postgres+0x478cf5",
        "postgres!standard_ProcessUtility",
        "postgres!PortalRun",
        "postgres!PostgresMain",
    ];
    for wanted in [key, index] {
        let (words, _) = lock(&[&EPOLL, &sleep, &acquire, &wanted]);
        assert_eq!(words, "lock on a transaction of PostgreSQL");
    }
}

/// PostgreSQL 15.18: VACUUM at a page that a cursor is on.
#[test]
fn a_pinned_page_of_postgresql_is_a_lock() {
    let vacuum = [
        "postgres!WaitEventSetWait",
        "postgres!WaitLatch",
        "postgres!ProcWaitForSignal",
        "postgres!LockBufferForCleanup",
        "postgres!heap_vacuum_rel",
        "postgres+0x2e8e9f",
        "postgres!vacuum",
        "postgres!ExecVacuum",
        "postgres!standard_ProcessUtility",
        "postgres!PortalRun",
        "postgres!PostgresMain",
    ];
    assert_eq!(lock(&[&EPOLL, &vacuum]), named("buffer pin of PostgreSQL", "heap_vacuum_rel"));
}

#[test]
fn a_session_of_postgresql_waits_for_its_clients_next_command() {
    let command = [
        "postgres!WaitEventSetWait",
        "postgres!secure_read",
        "postgres+0x34b406",
        "postgres!pq_getbyte",
        "postgres!PostgresMain",
    ];
    let found = wait(&[&EPOLL, &command]);
    assert_eq!(
        found,
        (WaitClass::Idle, "its client's next command".to_owned(), "PostgresMain".to_owned())
    );
}

/// MariaDB 10.11.19 of Debian 12, whose binary has no names for InnoDB's functions.
#[test]
fn mariadb_names_its_locks() {
    let row = [
        "mariadbd+0xd5b023",
        "mariadbd+0xdb657f",
        "mariadbd+0xd21751",
        "mariadbd!handler::ha_index_read_map",
        "mariadbd!handler::read_range_first",
        "mariadbd!QUICK_RANGE_SELECT::get_next",
        "mariadbd+0x76cdf8",
        "mariadbd!mysql_update",
        "mariadbd!do_command",
    ];
    assert_eq!(
        lock(&[&FUTEX, &CONDITION, &row]),
        named("row lock or latch of MariaDB", "mysql_update")
    );
    let metadata = [
        "mariadbd!MDL_wait::timed_wait",
        "mariadbd!MDL_context::acquire_lock",
        "mariadbd!open_table",
        "mariadbd!mysql_update",
    ];
    assert_eq!(
        lock(&[&FUTEX, &CONDITION, &metadata]),
        named("metadata lock of MariaDB", "open_table")
    );
    let table = [
        "mariadbd+0xefd486",
        "mariadbd!thr_multi_lock",
        "mariadbd!mysql_lock_tables",
        "mariadbd!lock_tables",
        "mariadbd!open_and_lock_tables",
        "mariadbd!mysql_execute_command",
        "mariadbd!do_command",
    ];
    assert_eq!(
        lock(&[&FUTEX, &CONDITION, &table]),
        named("table lock of MariaDB", "mysql_execute_command")
    );
}

/// PostgreSQL 15.18: the end of a backup, which waits for the archive.
#[test]
fn regression_whose_latch_it_is_says_more_than_the_latch() {
    let stop = [
        "postgres!WaitEventSetWait",
        "postgres!WaitLatch",
        "postgres!do_pg_backup_stop",
        "postgres!pg_backup_stop",
        "postgres!PostgresMain",
    ];
    let (class, _, function) = wait(&[&EPOLL, &stop]);
    assert_eq!((class, function.as_str()), (WaitClass::Idle, "do_pg_backup_stop"));
}

/// MariaDB 10.11.19: a result that the client does not take.
#[test]
fn regression_a_session_that_sends_its_result_is_not_idle() {
    let write = [
        "mariadbd!vio_io_wait",
        "mariadbd!vio_socket_io_wait",
        "mariadbd!vio_write",
        "mariadbd+0xbb5f4c",
        "mariadbd!net_flush",
        "mariadbd!do_command",
    ];
    let (class, words, _) = wait(&[&POLL, &write]);
    assert_eq!(
        (class, words.as_str()),
        (WaitClass::Network, "room in the connection to its client")
    );
}

#[test]
fn a_session_of_mariadb_waits_for_its_clients_next_command() {
    let read = [
        "mariadbd!vio_io_wait",
        "mariadbd!vio_socket_io_wait",
        "mariadbd!vio_read",
        "mariadbd+0xbb6f4c",
        "mariadbd!my_net_read_packet_reallen",
        "mariadbd!do_command",
    ];
    let found = wait(&[&POLL, &read]);
    assert_eq!(
        found,
        (WaitClass::Idle, "its client's next command".to_owned(), "do_command".to_owned())
    );
}

/// SQLite 3.40.1 of Debian 12, and the same where the library has no names.
#[test]
fn sqlite_polls_for_the_lock_on_its_file() {
    let busy = [
        "libc.so.6!usleep",
        "libsqlite3.so.0.8.6+0xaa1b4",
        "libsqlite3.so.0.8.6!sqlite3InvokeBusyHandler",
        "libsqlite3.so.0.8.6!sqlite3BtreeBeginTrans",
        "libsqlite3.so.0.8.6!sqlite3_step",
    ];
    assert_eq!(
        lock(&[&SLEEP, &busy]),
        named("lock on the database file", "sqlite3BtreeBeginTrans")
    );
    let nameless =
        ["libc.so.6!usleep", "libsqlite3.so.0.8.6+0xaa1b4", "libsqlite3.so.0.8.6!sqlite3_step"];
    assert_eq!(lock(&[&SLEEP, &nameless]), named("lock on the database file", "sqlite3_step"));
    let own = ["libc.so.6!usleep", "app!wait_a_moment", "libsqlite3.so.0.8.6!sqlite3_step"];
    assert_eq!(wait(&[&SLEEP, &own]).0, WaitClass::Timer, "a callback of the program sleeps");
}

/// Berkeley DB 5.3: a page that another transaction has written to.
#[test]
fn a_page_of_berkeley_db_is_locked() {
    let put = [
        "libdb-5.3.so!__db_pthread_mutex_lock",
        "libdb-5.3.so!__lock_get_internal",
        "libdb-5.3.so!__lock_get",
        "libdb-5.3.so!__db_lget",
        "libdb-5.3.so!__bam_search",
        "libdb-5.3.so+0x38862",
        "libdb-5.3.so!__db_put_pp",
        "ledger!post_entry",
        "ledger!main",
    ];
    let (words, function) = lock(&[&FUTEX, &CONDITION, &put]);
    assert_eq!((words.as_str(), function.as_str()), ("lock of Berkeley DB", "__db_lget"));
}
