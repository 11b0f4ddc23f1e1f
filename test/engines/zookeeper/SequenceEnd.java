import java.io.File;
import java.net.InetSocketAddress;
import org.apache.zookeeper.server.DataNode;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;

/** A server in which the numbers of one node's children are nearly used up as soon as it has a child. */
public class SequenceEnd {
  public static void main(String[] args) throws Exception {
    File folder = new File("data");
    ZooKeeperServer server = new ZooKeeperServer(folder, folder, 200);
    server.setMaxSessionTimeout(60_000);
    InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0]));
    ServerCnxnFactory.createFactory(address, 0).startup(server);
    for (;;) {
      DataNode node = server.getZKDatabase().getDataTree().getNode(args[1]);
      if (node != null) {
        synchronized (node) {
          int count = node.stat.getCversion();
          if (count > 0 && count < 1_000) node.stat.setCversion(Integer.MAX_VALUE - 1);
        }
      }
      Thread.sleep(10);
    }
  }
}
