% A shop whose stock has a mutex (with_mutex). Main sells something every 20 ms. When the file of the last
% argument appears, the thread that takes stock computes with the mutex.

:- dynamic sold/1.
sold(0).

now(Nanoseconds) :-
    get_time(Seconds),
    Nanoseconds is truncate(Seconds * 1.0e9).

count_shelves(End, Sum0, Sum) :-
    get_time(Now),
    (   Now >= End
    ->  Sum = Sum0
    ;   Sum1 is (Sum0 * 31 + 7) mod 1000003,
        count_shelves(End, Sum1, Sum)
    ).

take_stock :-
    get_time(Now),
    End is Now + 1.2,
    count_shelves(End, 7, _).

sell :-
    retract(sold(N0)),
    N is N0 + 1,
    assertz(sold(N)).

stocktaker(Flag) :-
    thread_self(Self),
    thread_property(Self, system_thread_id(Id)),
    thread_send_message(main, stocktaker(Id)),
    repeat,
    (   exists_file(Flag)
    ->  delete_file(Flag),
        with_mutex(stock, take_stock)
    ;   sleep(0.01)
    ),
    fail.

beat :-
    now(From),
    with_mutex(stock, sell),
    now(To),
    (   To - From >= 100000000
    ->  format('{"from": ~d, "to": ~d}~n', [From, To]),
        flush_output
    ;   true
    ),
    sleep(0.02).

run :-
    current_prolog_flag(argv, Arguments),
    last(Arguments, Flag),
    thread_create(stocktaker(Flag), _),
    thread_get_message(stocktaker(Other)),
    thread_property(main, system_thread_id(Main)),
    format('{"victim": ~d, "stocktaker": ~d}~n', [Main, Other]),
    flush_output,
    repeat,
    beat,
    fail.
