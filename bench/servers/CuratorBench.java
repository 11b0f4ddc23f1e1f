import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/** For each line "threads milliseconds": that many threads take and release one lock. Prints grants a second. */
class CuratorBench {
  public static void main(String[] args) throws Exception {
    CuratorFramework client =
        CuratorFrameworkFactory.newClient(args[0], 30_000, 5_000, new RetryOneTime(100));
    client.start();
    client.blockUntilConnected();
    Scanner lines = new Scanner(System.in);
    while (lines.hasNextInt()) {
      int threads = lines.nextInt();
      long forNs = lines.nextInt() * 1_000_000L;
      long startNs = System.nanoTime();
      AtomicLong grants = new AtomicLong();
      List<Thread> working = new ArrayList<>();
      for (int index = 0; index < threads; index++) {
        InterProcessMutex mutex = new InterProcessMutex(client, "/curator/bench-" + threads);
        Thread thread = new Thread(() -> repeat(mutex, startNs + forNs, grants));
        thread.start();
        working.add(thread);
      }
      for (Thread thread : working) thread.join();
      System.out.println(grants.get() * 1e9 / forNs);
    }
    client.close();
  }

  /** A thread that waits when the time is over gets the lock before it ends; that grant does not count. */
  static void repeat(InterProcessMutex mutex, long untilNs, AtomicLong grants) {
    try {
      while (System.nanoTime() < untilNs) {
        mutex.acquire();
        if (System.nanoTime() < untilNs) grants.incrementAndGet();
        mutex.release();
      }
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }
}
