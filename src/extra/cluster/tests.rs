use super::*;

#[test]
fn a_redirect_names_a_link_as_the_map_does() {
    let table = [
        ("MOVED 7 a:1", "b:2", Some((7, "a:1", true))),
        ("ASK 7 ::1:1", "b:2", Some((7, "[::1]:1", false))),
        ("MOVED 7 :1", "[::1]:2", Some((7, "[::1]:1", true))),
        ("MOVED 7 ?:1", "b:2", None),
        ("ERR no", "b:2", None),
    ];
    for (error, asked, expected) in table {
        let found = redirect(error.as_bytes(), asked);
        let found = found.as_ref().map(|it| (it.slot, &it.to[..], it.is_lasting));
        assert_eq!(found, expected, "{error}");
    }
}
