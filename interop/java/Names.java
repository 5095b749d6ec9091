// Looks up names with Java (docs/interop.md): `java Names.java NAME…` prints each with its addresses.

import java.net.InetAddress;
import java.net.UnknownHostException;

class Names {
    public static void main(String[] names) {
        for (String name : names) {
            StringBuilder line = new StringBuilder(name);
            try {
                for (InetAddress address : InetAddress.getAllByName(name)) {
                    line.append(' ').append(address.getHostAddress());
                }
            } catch (UnknownHostException absent) {
                // It says no more than that, whatever happened.
            }
            System.out.println(line);
        }
    }
}
