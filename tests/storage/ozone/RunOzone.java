import org.apache.hadoop.hdds.conf.OzoneConfiguration;
import org.apache.hadoop.ozone.MiniOzoneCluster;
import org.apache.hadoop.ozone.s3.Gateway;
import org.apache.hadoop.ozone.s3.OzoneConfigurationHolder;

/** Ozone with one data node and no replication, and its S3 gateway at the port of the first argument. */
public final class RunOzone {
    public static void main(String[] port) throws Exception {
        OzoneConfiguration conf = new OzoneConfiguration();
        for (String prefix : new String[] {"ozone", "ozone.server.default"}) {
            conf.set(prefix + ".replication", "1");
            conf.set(prefix + ".replication.type", "RATIS");
        }
        // By default it wants tens of gigabytes.
        conf.set("ozone.scm.container.size", "64MB");
        conf.set("ozone.scm.block.size", "16MB");
        conf.set("ozone.scm.datanode.ratis.volume.free-space.min", "16MB");
        conf.set("hdds.datanode.volume.min.free.space", "16MB");
        conf.set("hdds.datanode.volume.min.free.space.percent", "0.0001");
        MiniOzoneCluster cluster = MiniOzoneCluster.newBuilder(conf).setNumDatanodes(1).build();
        cluster.waitForClusterToBeReady();
        OzoneConfiguration gateway = new OzoneConfiguration(cluster.getConf());
        for (String address : new String[] {"https-address", "webadmin.http-address", "webadmin.https-address"}) {
            gateway.set("ozone.s3g." + address, "127.0.0.1:0");
        }
        gateway.set("ozone.s3g.http-address", "127.0.0.1:" + port[0]);
        OzoneConfigurationHolder.resetConfiguration();
        OzoneConfigurationHolder.setConfiguration(gateway);
        new Gateway().execute(new String[0]);
    }
}
