// A shop that does everything in the pool of threads, which may have two (ThreadPool). When the file of
// the first argument appears, mails are sent there by calls that block; the ids of their threads go
// into the file of the second one.
using System;
using System.Diagnostics;
using System.IO;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

public static class Mails
{
    const int PeriodMs = 20;
    const long SlowNs = 100000000;
    static readonly object file = new object();

    [DllImport("libc")]
    static extern int gettid();

    static long Now()
    {
        return (long)(Stopwatch.GetTimestamp() * (1e9 / Stopwatch.Frequency));
    }

    static int ShowPrice()
    {
        return Task.Run(() => 7).Result;
    }

    static void SendMail(string threads)
    {
        lock (file)
            File.AppendAllText(threads, gettid() + "\n");
        Thread.Sleep(1200);
    }

    static void Beat()
    {
        for (;;) {
            long from = Now();
            ShowPrice();
            long to = Now();
            if (to - from >= SlowNs)
                Console.WriteLine("{{\"from\": {0}, \"to\": {1}}}", from, to);
            Thread.Sleep(PeriodMs);
        }
    }

    public static void Main(string[] arguments)
    {
        ThreadPool.SetMinThreads(2, 2);
        if (!ThreadPool.SetMaxThreads(2, 2))
            throw new InvalidOperationException("the pool cannot be so small");
        new Thread(Beat) {Name = "heartbeat", IsBackground = true}.Start();
        Thread.Sleep(500);
        Console.WriteLine("{}");
        while (!File.Exists(arguments[0]))
            Thread.Sleep(10);
        for (int n = 0; n < 4; n++)
            Task.Run(() => SendMail(arguments[1]));
        Thread.Sleep(Timeout.Infinite);
    }
}
