import java.util.ArrayList;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/** Takes and releases one lock: cycles by so many threads at a time. Prints how many a second. */
class CuratorBench {
  public static void main(String[] args) throws Exception {
    int threads = Integer.parseInt(args[1]);
    int cycles = Integer.parseInt(args[2]);
    CuratorFramework client =
        CuratorFrameworkFactory.newClient(args[0], 30_000, 5_000, new RetryOneTime(100));
    client.start();
    client.blockUntilConnected();
    // The first round warms up.
    for (int round = 0; round < 2; round++) {
      String path = "/curator/bench-" + threads + "-" + round;
      long start = System.nanoTime();
      List<Thread> working = new ArrayList<>();
      for (int index = 0; index < threads; index++) {
        Thread thread = new Thread(() -> repeat(new InterProcessMutex(client, path), cycles / threads));
        thread.start();
        working.add(thread);
      }
      for (Thread thread : working) thread.join();
      double seconds = (System.nanoTime() - start) / 1e9;
      if (round == 1) System.out.println(cycles / threads * threads / seconds);
    }
    client.close();
  }

  static void repeat(InterProcessMutex mutex, int cycles) {
    try {
      for (int cycle = 0; cycle < cycles; cycle++) {
        mutex.acquire();
        mutex.release();
      }
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }
}
