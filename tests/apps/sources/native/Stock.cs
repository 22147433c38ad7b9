// The stock of a shop: the thread "heartbeat" sells something every 20 ms, under a lock. When the file
// of the argument appears, the thread "inventory" counts everything with that lock.
using System;
using System.Diagnostics;
using System.IO;
using System.Threading;

public static class Stock
{
    const int PeriodMs = 20;
    const long SlowNs = 100000000;
    static readonly object shelf = new object();
    static long sum;

    // Stopwatch counts CLOCK_MONOTONIC.
    static long Now()
    {
        return (long)(Stopwatch.GetTimestamp() * (1e9 / Stopwatch.Frequency));
    }

    static void SellArticle()
    {
        lock (shelf)
            sum++;
    }

    static void CountShelves()
    {
        long end = Now() + 1200000000;

        while (Now() < end)
            for (int n = 1; n < 10000; n++)
                sum += n % 7 * sum;
    }

    static void TakeInventory()
    {
        lock (shelf)
            CountShelves();
    }

    static void Beat()
    {
        for (;;) {
            long from = Now();
            SellArticle();
            long to = Now();
            if (to - from >= SlowNs)
                Console.WriteLine("{{\"from\": {0}, \"to\": {1}}}", from, to);
            Thread.Sleep(PeriodMs);
        }
    }

    static void WaitForInventory(string flag)
    {
        while (!File.Exists(flag))
            Thread.Sleep(10);
        TakeInventory();
    }

    static void Start(string name, ThreadStart body)
    {
        new Thread(body) {Name = name, IsBackground = true}.Start();
    }

    public static void Main(string[] arguments)
    {
        Start("heartbeat", Beat);
        Start("inventory", () => WaitForInventory(arguments[0]));
        Thread.Sleep(500);
        Console.WriteLine("{}");
        Thread.Sleep(Timeout.Infinite);
    }
}
