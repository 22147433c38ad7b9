//! Attacks on the server: wrong tokens, foreign hosts and pages, names that lead elsewhere, endless
//! uploads, hostile traces. After each of them the server is alive, and nothing of it is left.

use crate::support;
use crate::support::{Answer, Served, read};
use std::io::Write;

const LIMIT: u64 = 1 << 20;

fn served() -> Served {
    Served::new(LIMIT, |_| {})
}

fn request(served: &Served, line: &str, headers: &[&str]) -> Answer {
    let mut head = format!("{line} HTTP/1.1\r\nConnection: close");
    for header in headers {
        head.push_str("\r\n");
        head.push_str(header);
    }
    served.send(&head, b"")
}

fn host(served: &Served) -> String {
    format!("Host: 127.0.0.1:{}", served.port)
}

#[test]
fn without_the_token_every_request_is_refused() {
    let served = served();
    let host = host(&served);
    let almost = format!("{}0", &served.token[..served.token.len() - 1]);
    let almost = if almost == served.token {
        format!("{}1", &served.token[..served.token.len() - 1])
    } else {
        almost
    };
    let wrong = [
        String::new(),
        "Authorization: Bearer".to_owned(),
        "Authorization: Bearer wrong".to_owned(),
        format!("Authorization: Bearer {almost}"),
        format!("Authorization: Bearer {}0", served.token),
        format!("Authorization: Basic {}", served.token),
        format!("Cookie: unhitch-{}={almost}", served.port),
        format!("Cookie: unhitch-1={}", served.token),
        format!("Cookie: unhitch={}", served.token),
    ];
    for header in &wrong {
        let headers = if header.is_empty() {
            vec![host.as_str()]
        } else {
            vec![host.as_str(), header.as_str()]
        };
        for path in [
            "/api/traces",
            "/api/server",
            "/api/t/starve.hitch/summary",
            "/api/nothing",
            "/",
            "/assets/x.js",
        ] {
            let answer = request(&served, &format!("GET {path}"), &headers);
            assert_eq!(answer.status, 401, "{path} with {header:?}");
            assert!(!answer.text().contains("starve"), "{}", answer.text());
            assert!(
                !answer.text().contains(&served.token) && !answer.headers.contains(&served.token)
            );
        }
        let answer = request(&served, "DELETE /api/traces/starve.hitch", &headers);
        assert_eq!(answer.status, 401);
    }
    let answer = request(&served, &format!("GET /?token={almost}"), &[&host]);
    assert_eq!((answer.status, answer.header("set-cookie")), (401, None));
    served.assert_folder_holds(&["starve.hitch"]);
    served.assert_alive();
}

#[test]
fn the_printed_address_sets_a_cookie_that_authorizes() {
    let served = served();
    let host = host(&served);
    let answer =
        request(&served, &format!("GET /t/a?view=flame&token={}&from=5", served.token), &[&host]);
    assert_eq!(answer.status, 200);
    let cookie = answer.header("set-cookie").expect("a cookie").to_owned();
    assert!(
        cookie.contains("HttpOnly")
            && cookie.contains("SameSite=Strict")
            && cookie.contains("Path=/"),
        "{cookie}"
    );
    // The page redirects to the same address without the token.
    assert!(answer.text().contains("url=/t/a?view=flame&amp;from=5\""), "{}", answer.text());
    assert!(!answer.text().contains(&served.token));
    let cookie = format!("Cookie: other=1; {}", cookie.split(';').next().unwrap());
    assert_eq!(request(&served, "GET /api/traces", &[&host, &cookie]).status, 200);
    assert_eq!(request(&served, "GET /", &[&host, &cookie]).status, 200);
    // A path that a browser would interpret as the address of another site.
    let answer = request(&served, &format!("GET //evil.example/?token={}", served.token), &[&host]);
    assert!(!answer.text().contains("//evil"), "{}", answer.text());
}

#[test]
fn only_loopback_names_of_this_port_are_answered() {
    let served = served();
    let token = format!("Authorization: Bearer {}", served.token);
    let port = served.port;
    for host in [
        "Host: evil.example".to_owned(),
        format!("Host: evil.example:{port}"),
        format!("Host: 127.0.0.1.evil.example:{port}"),
        format!("Host: 127.0.0.1:{}", port.wrapping_add(1)),
        "Host: 127.0.0.1".to_owned(),
        format!("Host: user@127.0.0.1:{port}"),
        format!("Host: 0.0.0.0:{port}"),
        "Host:".to_owned(),
    ] {
        let answer = request(&served, "GET /api/traces", &[&host, &token]);
        assert!([400, 403].contains(&answer.status), "{host}: {}", answer.status);
        assert!(!answer.text().contains("starve"));
    }
    let answer = request(&served, "GET /api/traces", &[&token]);
    assert!([400, 403].contains(&answer.status), "no Host: {}", answer.status);
    let own = format!("Host: 127.0.0.1:{port}");
    let answer =
        request(&served, &format!("GET http://evil.example:{port}/api/traces"), &[&own, &token]);
    assert!([400, 403].contains(&answer.status), "an absolute address: {}", answer.status);
    for host in [own, format!("Host: localhost:{port}"), format!("Host: LOCALHOST:{port}")] {
        assert_eq!(request(&served, "GET /api/traces", &[&host, &token]).status, 200, "{host}");
    }
}

#[test]
fn other_pages_are_refused() {
    let served = served();
    let (host, cookie) =
        (host(&served), format!("Cookie: unhitch-{}={}", served.port, served.token));
    for origin in [
        "Origin: http://evil.example".to_owned(),
        "Origin: null".to_owned(),
        "Origin: http://127.0.0.1".to_owned(),
        format!("Origin: https://127.0.0.1:{}", served.port),
        format!("Origin: http://127.0.0.1:{}", served.port.wrapping_add(1)),
        format!("Origin: http://127.0.0.1:{}.evil.example", served.port),
    ] {
        for line in [
            "GET /api/traces",
            "DELETE /api/traces/starve.hitch",
            "POST /api/traces?name=x",
            "OPTIONS /api/traces",
        ] {
            let answer = request(&served, line, &[&host, &cookie, &origin]);
            assert_eq!(answer.status, 403, "{line} from {origin}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
    for site in ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"] {
        assert_eq!(
            request(&served, "GET /api/traces", &[&host, &cookie, site]).status,
            403,
            "{site}"
        );
    }
    // A cookie alone changes nothing: a form on another page could send it.
    assert_eq!(request(&served, "DELETE /api/traces/starve.hitch", &[&host, &cookie]).status, 403);
    let own = format!("Origin: http://127.0.0.1:{}", served.port);
    let answer = request(&served, "GET /api/traces", &[&host, &cookie, &own]);
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, None));
    served.assert_folder_holds(&["starve.hitch"]);
    assert_eq!(
        request(&served, "DELETE /api/traces/starve.hitch", &[&host, &cookie, &own]).status,
        204
    );
    served.assert_folder_holds(&[]);
}

#[test]
fn every_answer_restricts_the_browser() {
    let served = served();
    for (path, status) in
        [("/", 200), ("/api/traces", 200), ("/api/t/none/summary", 404), ("/t/some/view", 200)]
    {
        let answer = served.get(path);
        assert_eq!(answer.status, status, "{path}");
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self';")
                && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
}

/// Names, encoded for a URL, that would lead out of the folder, or are not names of its traces.
const NAMES: [&str; 14] = [
    "..",
    "%2e%2e",
    "..%2fstarve.hitch",
    "%2E%2E%2Fstarve.hitch",
    "..%5cstarve.hitch",
    "inside%2Fdeep.hitch",
    "inside",
    "link.hitch",
    ".hidden.hitch",
    "starve.hitch%00",
    "starve.hitch%0a",
    ".",
    "%2fetc%2fpasswd",
    "C%3Astarve.hitch",
];

/// The status with which a new name is refused: 409 if something in the folder already has it.
fn refusal(name: &str) -> u16 {
    if ["inside", "link.hitch"].contains(&name) { 409 } else { 400 }
}

#[test]
fn names_lead_nowhere_else() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret.hitch");
    std::fs::copy(support::real_trace(), &secret).unwrap();
    let served = Served::new(LIMIT * 4, |folder| {
        std::fs::write(folder.join(".hidden.hitch"), b"PK\x03\x04").unwrap();
        std::fs::create_dir(folder.join("inside")).unwrap();
        std::fs::copy(support::real_trace(), folder.join("inside/deep.hitch")).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(&secret, folder.join("link.hitch")).unwrap();
    });
    let encoded = secret.to_str().unwrap().replace('/', "%2F");
    let parent =
        format!("..%2F{}%2Fsecret.hitch", outside.path().file_name().unwrap().to_str().unwrap());
    for name in NAMES.into_iter().chain([&*encoded, &*parent]) {
        cannot_be_read(&served, name);
        cannot_be_changed(&served, name);
        cannot_be_given(&served, name);
    }
    let listed = served.ask("/api/traces");
    assert_eq!(listed["traces"].as_array().unwrap().len(), 1, "{listed}");
    assert!(
        !listed.to_string().contains(served.folder.path().to_str().unwrap()),
        "no path of the machine is shown"
    );
    let raw = request(
        &served,
        "GET /api/t/../../secret.hitch/summary",
        &[&host(&served), &format!("Authorization: Bearer {}", served.token)],
    );
    assert_eq!(raw.status, 404, "{}", raw.text());
    assert!(
        secret.exists()
            && served.file("inside/deep.hitch").exists()
            && served.file(".hidden.hitch").exists()
    );
    served.assert_alive();
}

fn cannot_be_read(served: &Served, name: &str) {
    for route in ["summary", "status", "report", "view"] {
        let answer = served.get(&format!("/api/t/{name}/{route}"));
        assert!([400, 404].contains(&answer.status), "{name}/{route}: {}", answer.status);
        assert!(!answer.text().contains("typing") && !answer.text().contains("root:"));
    }
}

fn cannot_be_changed(served: &Served, name: &str) {
    let path = format!("/api/traces/{name}");
    let answer = served.send(&served.head("DELETE", &path), b"");
    assert!([400, 404, 405].contains(&answer.status), "{name}: {}", answer.status);
    let answer = served.with_body("PATCH", &path, "application/json", br#"{"notes":"x"}"#);
    assert!([400, 404, 405].contains(&answer.status), "{name}: {}", answer.status);
}

/// No trace can be renamed to it, or uploaded as it.
fn cannot_be_given(served: &Served, name: &str) {
    if !name.contains('%') || name.contains("%2") || name.contains("%00") {
        let decoded =
            name.replace("%2F", "/").replace("%2f", "/").replace("%2e", ".").replace("%00", "\0");
        let body = serde_json::json!({ "name": decoded }).to_string();
        let answer = served.with_body(
            "PATCH",
            "/api/traces/starve.hitch",
            "application/json",
            body.as_bytes(),
        );
        assert_eq!(answer.status, refusal(name), "renamed to {body}: {}", answer.text());
    }
    let upload = served.with_body(
        "POST",
        &format!("/api/traces?name={name}"),
        "application/octet-stream",
        b"PERFILE2",
    );
    assert_eq!(upload.status, refusal(name), "uploaded as {name}: {}", upload.text());
}

#[test]
fn ten_gigabytes_are_refused_before_they_are_sent() {
    let served = served();
    // With an announced length, it is refused before the body is sent.
    let head = served.head("POST", "/api/traces?name=big.hitch");
    let answer = served.send(
        &format!("{head}\r\nContent-Type: application/octet-stream\r\nContent-Length: 10737418240"),
        b"",
    );
    assert_eq!(answer.status, 413, "{}", answer.text());
    assert!(
        answer.json()["error"].as_str().unwrap().contains("1,048,576 bytes"),
        "{}",
        answer.text()
    );
    served.assert_folder_holds(&["starve.hitch"]);

    // Without one, it is refused at the first byte beyond the limit.
    let mut stream = served.connect();
    let head = format!("{head}\r\nTransfer-Encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let piece = [&b"PERFILE2"[..], &vec![b'x'; (64 << 10) - 8]].concat();
    for _ in 0..LIMIT / piece.len() as u64 {
        stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).unwrap();
        stream.write_all(&piece).unwrap();
        stream.write_all(b"\r\n").unwrap();
    }
    stream.write_all(b"1\r\nx\r\n").unwrap();
    let answer = read(&mut stream);
    assert_eq!(answer.status, 413, "{}", answer.text());

    // A client that keeps sending is disconnected.
    let mut stream = served.connect();
    stream.write_all(head.as_bytes()).unwrap();
    let cut_off = (0..200_000).any(|_| {
        let sent = stream
            .write_all(format!("{:x}\r\n", piece.len()).as_bytes())
            .and_then(|()| stream.write_all(&piece));
        sent.and_then(|()| stream.write_all(b"\r\n")).is_err()
    });
    assert!(cut_off, "10 GB were accepted");

    // An upload that breaks off leaves nothing, either.
    served.until_folder_counts(1);
    let mut stream = served.connect();
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(b"8\r\nPERFILE2\r\n").unwrap();
    served.until_folder_counts(2);
    drop(stream);
    served.until_folder_counts(1);
    served.assert_folder_holds(&["starve.hitch"]);
    served.assert_alive();
}

/// Damaged traces: cut off, with flipped bits, with lengths that are too large.
fn hostile_traces() -> [(&'static str, Vec<u8>); 7] {
    let real = std::fs::read(support::real_trace()).unwrap();
    let mut flipped = real.clone();
    for at in (0..flipped.len()).step_by(97) {
        flipped[at] ^= 0x5a;
    }
    let mut huge = b"PERFILE2".to_vec();
    // Every length of the header claims the whole address space.
    huge.extend_from_slice(&[0xff; 256]);
    let etl = unhitch_golden::move_my_mouse().etl();
    let mut torn = etl.clone();
    // Some of these bytes are sizes of events. The header is left, or nothing would be read at all.
    for at in (4096..torn.len()).step_by(997) {
        torn[at] = 0xff;
    }
    let mut endless = etl[..512.min(etl.len())].to_vec();
    // Every buffer has the maximum size, and the header counts four billion of them.
    endless[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    endless.resize(8192, 0xff);
    [
        ("torn.etl", torn),
        ("endless.etl", endless),
        ("cut.hitch", real[..real.len() / 2].to_vec()),
        ("flipped.hitch", flipped),
        ("huge.data", huge),
        ("short.data", b"PERFILE2".to_vec()),
        ("zip.hitch", b"PK\x03\x04 and no more".to_vec()),
    ]
}

#[test]
fn hostile_traces_are_refused_and_the_server_lives() {
    let files = hostile_traces();
    let served = Served::new(16 << 20, |folder| {
        files.iter().for_each(|(name, bytes)| std::fs::write(folder.join(name), bytes).unwrap())
    });
    let folder = served.folder.path().to_str().unwrap();
    for (name, _) in &files {
        let status = served.until_judged(name);
        if status["stage"] == "failed" {
            assert!(!status.to_string().contains(folder), "{status}");
            every_route_refuses(&served, name);
        } else {
            // What can be read is read, with a warning.
            let summary = served.ask(&format!("/api/t/{name}/summary"));
            assert!(!summary["warnings"].as_array().unwrap().is_empty(), "{name}: {summary}");
        }
        served.assert_alive();
    }
    let listed = served.ask("/api/traces");
    let mut entries = listed["traces"].as_array().unwrap().iter();
    assert!(entries.any(|entry| !entry["error"].is_null()), "{listed}");
    assert!(!listed.to_string().contains(folder), "{listed}");
    // A file that does not even begin like a trace is not kept.
    for body in [&b"<html>"[..], b"", b"MZ\x90"] {
        let answer =
            served.with_body("POST", "/api/traces?name=no.hitch", "application/octet-stream", body);
        assert_eq!(answer.status, 422, "{}", answer.text());
    }
    assert!(!served.file("no.hitch").exists());
    assert_eq!(served.until_judged("starve.hitch")["stage"], "ready");
}

/// Every route about a trace that failed refuses, and shows no path.
fn every_route_refuses(served: &Served, name: &str) {
    for route in
        ["summary", "lanes", "view?lanes=c0", "stalls", "table?table=waits", "stall/1", "report"]
    {
        let answer = served.get(&format!("/api/t/{name}/{route}"));
        assert_eq!(answer.status, 422, "{name}/{route}");
        assert!(
            !answer.text().contains(served.folder.path().to_str().unwrap()),
            "{}",
            answer.text()
        );
    }
}

#[test]
fn slow_connections_make_room_for_new_ones() {
    let served = Served::new(LIMIT * 4, |_| {});
    let trace = std::fs::read(support::real_trace()).unwrap();
    let (begin, rest) = trace.split_at(1000);
    // An upload that continues meanwhile is not slow.
    let mut upload = served.connect();
    let head = format!(
        "{}\r\nContent-Length: {}\r\n\r\n",
        served.head("POST", "/api/traces?name=new.hitch"),
        trace.len()
    );
    upload.write_all(&[head.as_bytes(), begin].concat()).unwrap();
    served.until_folder_counts(2);
    let dribble = |_| {
        let mut stream = served.connect();
        // A connection that the server already closed is no failure.
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nX: ");
        stream
    };
    let mut slow: Vec<_> = (0..300).map(dribble).collect();
    served.assert_alive();
    assert_eq!(read(&mut slow[0]).status, 0, "the oldest is disconnected without an answer");
    upload.write_all(rest).unwrap();
    let answer = read(&mut upload);
    assert_eq!(answer.status, 201, "{}", answer.text());
}
